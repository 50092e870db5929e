"""`python -m gafixer.run`: the patch first, then the script as if it were run alone."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gafixer.run import main

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import sys
import helper
import gafixer.patch
print(__name__, sys.argv[1:], helper.here, {entry.state.value for entry in gafixer.patch.status()})
if "fail" in sys.argv:
    raise SystemExit(7)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("here = True\n")
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gafixer.run", *words], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("target", [["train.py"], ["-m", "train"]])
def test_it_runs_as_main_with_its_own_arguments(folder: Path, target: list[str]) -> None:
    done = run(folder, *target, "--lr", "1", "-m")
    assert done.stdout == "__main__ ['--lr', '1', '-m'] True {'waiting'}\n"
    assert done.returncode == 0


def test_the_scripts_exit_code_is_its_own(folder: Path) -> None:
    assert run(folder, "train.py", "fail").returncode == 7


@pytest.mark.parametrize("command", [["gafixer.run"], ["gafixer", "run"]])
def test_what_the_script_raises_is_its_own(folder: Path, command: list[str]) -> None:
    """With its traceback, as Python shows it: nobody takes it for a fault of gafixer."""
    (folder / "train.py").write_text("import no_such_module\n")
    words = [sys.executable, "-m", *command, "train.py"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'no_such_module'\n")
    assert "internal error" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"), [([], "usage"), (["-m"], "usage"), (["--help"], "usage"), (["none.py"], "no such file: none.py")]
)
def test_nothing_to_run(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_under_torchrun(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "-m", "gafixer.run", "train.py", "a"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "__main__ ['a'] True {'waiting'}" in done.stdout, done.stderr
