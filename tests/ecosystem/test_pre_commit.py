"""The pre-commit hooks, as far as they can be held without pre-commit: declared right, and run as declared."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.command import REAL, gafixer
from tests.notebooks.making import cut, notebook

if TYPE_CHECKING:
    import subprocess

ROOT = Path(__file__).parents[2]
PAIR = ROOT / "rules" / "GA101_mean_over_steps"
HOOKS: dict[str, dict[str, Any]] = {
    hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
}
#: What pre-commit knows of a hook, of which we use some.
KEYS = {"id", "name", "description", "entry", "language", "types_or", "require_serial", "minimum_pre_commit_version"}
#: What it hands over: the staged files of these types, not those that its own `exclude` names.
STAGED = ("good.py", "bad.py", "nb.ipynb", "third_party/bad.py")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A clean file, a faulty one, a notebook, and a file that the settings exclude."""
    (tmp_path / "third_party").mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.gafixer]\nextend-exclude = ["third_party"]\n')
    for name in ("bad.py", "good.py"):
        shutil.copy(PAIR / name, tmp_path / name)
    shutil.copy(PAIR / "bad.py", tmp_path / "third_party" / "bad.py")
    (tmp_path / "nb.ipynb").write_text(notebook("%load_ext x", *cut((PAIR / "bad.py").read_text())))
    return tmp_path


def run(hook: str, *files: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The hook's entry with the files behind it, as pre-commit runs it."""
    command, *arguments = shlex.split(HOOKS[hook]["entry"])
    assert command == "gafixer"
    return gafixer(*arguments, *files, cwd=cwd, command=REAL)


def test_manifest() -> None:
    """Two hooks, in an environment of their own, for Python and notebooks, one process for all files."""
    assert list(HOOKS) == ["gafixer", "gafixer-fix"]
    for hook in HOOKS.values():
        assert hook.keys() == KEYS
        assert (hook["language"], hook["types_or"], hook["require_serial"]) == ("python", ["python", "jupyter"], True)


def test_report(repository: Path) -> None:
    """The faulty file and the notebook; what the settings exclude is passed over though it is named."""
    found = run("gafixer", *STAGED, cwd=repository)
    assert found.returncode == 1
    heads = [line.split(": ")[0] for line in found.stdout.split("\n") if ": GA" in line]
    assert [head.partition(":")[0] for head in heads] == ["bad.py", "nb.ipynb"]
    before = (PAIR / "bad.py").read_text()
    assert (repository / "bad.py").read_text() == before
    assert run("gafixer", "good.py", cwd=repository).returncode == 0
    assert run("gafixer", "third_party/bad.py", cwd=repository).returncode == 0


def test_fix(repository: Path) -> None:
    """It fails when it changed something, so that the commit stops, and passes once that is staged."""
    fixed = run("gafixer-fix", *STAGED, cwd=repository)
    assert fixed.returncode == 1
    assert "fixed bad.py:50: GA101" in fixed.stderr
    assert (repository / "bad.py").read_text() == (PAIR / "good.py").read_text()
    assert (repository / "third_party" / "bad.py").read_text() == (PAIR / "bad.py").read_text()
    assert run("gafixer-fix", *STAGED, cwd=repository).returncode == 0
