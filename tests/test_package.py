"""What is installed: a wheel and an sdist are built and listed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from gafixer import rulebook
from gafixer.settings import schema

ROOT = Path(__file__).parents[1]
RULES = sorted(path.name for path in (ROOT / "rules").glob("GA*") if path.is_dir())
#: Rules that no training script can show; a fixture does.
WITHOUT_SCRIPTS = {"GA107", "GA305", "GA900", "GA901"}


def expected(folder: str) -> set[str]:
    """The files that a rule consists of."""
    scripts = set() if folder.partition("_")[0] in WITHOUT_SCRIPTS else {"bad.py", "good.py"}
    return {"README.md", "check.py"} | scripts


def shipped(names: list[str], below: str) -> dict[str, set[str]]:
    """Rule folder -> the files in it, of all names that lie below the prefix."""
    files: dict[str, set[str]] = {}
    for name in names:
        folder, _, file = name.removeprefix(below).partition("/")
        if name.startswith(f"{below}GA") and file:
            files.setdefault(folder, set()).add(file)
    return files


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, built from a copy of the sources."""
    copy = tmp_path_factory.mktemp("copy")
    out = tmp_path_factory.mktemp("built")
    away = shutil.ignore_patterns(".git", ".venv", "build", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, copy, dirs_exist_ok=True, ignore=away)
    for kind in ("sdist", "wheel"):
        build = f"import setuptools.build_meta as backend; backend.build_{kind}({str(out)!r})"
        subprocess.run([sys.executable, "-c", build], cwd=copy, check=True, capture_output=True)
    return out


@pytest.mark.parametrize("folder", RULES)
def test_rule_is_complete(folder: str) -> None:
    """A rule has its check, its page, and two scripts unless no script can show it."""
    files = {path.name for path in (ROOT / "rules" / folder).iterdir()}
    assert expected(folder) <= files


def test_wheel(built: Path) -> None:
    """Every rule folder is there with what it consists of; so are the data and the mark of a typed package."""
    names = zipfile.ZipFile(next(built.glob("*.whl"))).namelist()
    files = shipped(names, "gafixer/rules/")
    assert sorted(files) == RULES
    assert all(expected(folder) <= files[folder] for folder in RULES)
    data = {f"gafixer/data/{path.name}" for path in (ROOT / "gafixer" / "data").glob("*.json")}
    page = {f"gafixer/parity/page/{path.name}" for path in (ROOT / "gafixer" / "parity" / "page").glob("page.*")}
    assert data
    assert page
    assert data | page | {"gafixer/py.typed"} <= set(names)
    assert not [name for name in names if name.startswith("tests") or "__pycache__" in name]


def test_sdist(built: Path) -> None:
    """The same rules, and what is needed to test them."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    files = shipped(names, "rules/")
    assert sorted(files) == RULES
    assert all(expected(folder) <= files[folder] for folder in RULES)
    assert {"LICENSE", "README.md", "pyproject.toml", "tests/test_package.py", "tests/constraints.txt"} <= set(names)


def test_wheel_works(built: Path, tmp_path: Path) -> None:
    """The command runs from the wheel alone, and has its pages."""
    zipfile.ZipFile(next(built.glob("*.whl"))).extractall(tmp_path)
    run = subprocess.run(
        [sys.executable, "-P" if sys.version_info >= (3, 11) else "-s", "-c", FROM_WHEEL, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split()[0] == str(tmp_path / "gafixer" / "rules")
    assert "GA101" in run.stdout


FROM_WHEEL = """
import sys
sys.path.insert(0, sys.argv[1])
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder)]
import gafixer.rules
print(gafixer.rules.__path__[0])
sys.argv[1:] = ["rule", "--all"]
from gafixer.cli import main
main()
"""


def test_rules_are_found_where_this_is_installed() -> None:
    """An editable install, too, has them as `gafixer.rules`."""
    assert [rulebook.folder(code) for code in rulebook.catalogue()] == RULES


def test_settings_schema_is_current() -> None:
    """What ships is what the table of keys and the rules make: `python -m gafixer.settings.schema`."""
    shipped_schema = ROOT / "gafixer" / "data" / "settings.schema.json"
    assert shipped_schema.read_text(encoding="utf-8") == schema.render()


def test_names_are_those_of_the_folders() -> None:
    """The catalogue reads names off the folders, so that nothing need be imported to select a rule by name."""
    assert {rule.code: rule.name for rule in rulebook.load()} == rulebook.catalogue()


@pytest.mark.parametrize("code", ["import gafixer", "import gafixer.cli", "import gafixer.command"])
def test_import_is_light(code: str) -> None:
    """Neither libcst nor torch, nor anything that only some commands need."""
    check = f"{code}; import sys; heavy = {{'libcst', 'torch', 'transformers', 'rich', 'pathspec'}}"
    shown = subprocess.run(
        [sys.executable, "-c", f"{check}; print(heavy & set(sys.modules))"], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "set()\n"
