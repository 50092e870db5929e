"""Which file's settings hold for which file."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from gafixer.findings import Severity
from gafixer.settings import Hierarchy, Layer


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: it takes GA1, its sub folder GA2, and what lies deeper in that errors only."""
    monkeypatch.chdir(tmp_path)
    for folder, text in {
        ".": "select = ['GA1']\n[per-file-ignores]\n'test_*' = ['GA101']\n'sub/*' = ['GA1']\n'old/**' = ['GA11']\n",
        "sub": "select = ['GA2']",
        "sub/plain/deep": "min-severity = 'error'",
    }.items():
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, "gafixer.toml").write_text(text)
    return tmp_path


def test_nearest_wins_for_each_file(here: Path) -> None:
    """Whole, not merged; whatever way the path is spelled."""
    made = Hierarchy()
    assert made.of("a.py").selected == {"GA101", "GA102", "GA110"}
    assert made.of("sub/a.py").selected == made.of("sub/plain/a.py").selected == {"GA201"}
    assert made.of("sub/plain/deep/a.py").min_severity is Severity.ERROR
    assert made.of("sub/plain/deep/a.py").selected == {"GA101", "GA102", "GA110", "GA201"}
    for spelled in ("./sub/a.py", "sub/../sub/a.py", str(here / "sub" / "a.py")):
        assert made.of(spelled) == made.of("sub/a.py")


def test_nearest_file_of_a_folder(here: Path) -> None:
    """A pyproject.toml without our table is passed over; gafixer.toml goes before one with it."""
    (here / "sub" / "gafixer.toml").unlink()
    shared = here / "sub" / "pyproject.toml"
    shared.write_text('[project]\ndependencies = ["gafixer"]\n')
    assert Hierarchy().config("sub") == here / "gafixer.toml"
    shared.write_text("[tool.gafixer]\n")
    assert Hierarchy().config("sub") == shared
    (here / "sub" / "gafixer.toml").touch()
    assert Hierarchy().config("sub") == here / "sub" / "gafixer.toml"


def test_files_elsewhere_take_the_working_directorys(here: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Unless something around them is configured."""
    other = tmp_path_factory.mktemp("other")
    assert Hierarchy().of(str(other / "a.py")).selected == {"GA101", "GA102", "GA110"}
    (other / "gafixer.toml").write_text("select = ['GA2']")
    assert Hierarchy().of(str(other / "a.py")).selected == {"GA201"}


def test_given_and_isolated(here: Path) -> None:
    """A file that is named holds for all; isolated reads none; what is typed is stronger."""
    named = Hierarchy(config=here / "sub" / "gafixer.toml")
    assert named.of("a.py").selected == named.of("sub/plain/deep/a.py").selected == {"GA201"}
    assert len(Hierarchy(isolated=True).of("sub/a.py").selected) == 4
    assert Hierarchy(Layer(select=("GA1",)), Layer(ignore=("GA102",))).of("sub/a.py").selected == {"GA101", "GA110"}


@pytest.mark.parametrize(
    ("path", "codes"),
    [
        ("test_a.py", {"GA102", "GA110"}),
        ("new/test_a.py", {"GA102", "GA110"}),
        ("old/deep/a.py", {"GA101", "GA102"}),
        ("old/test_a.py", {"GA102"}),
        ("a_test_.py", {"GA101", "GA102", "GA110"}),
        ("sub/test_a.py", {"GA201"}),
    ],
)
def test_per_file_ignores(path: str, codes: set[str]) -> None:
    """By name or by path below the file that says it; the settings of another file have their own."""
    assert Hierarchy().of(path).selected == codes


def test_other_processes_know_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was looked up travels along: no file is read again."""
    made = Hierarchy(Layer(ignore=("GA102",)))
    wanted = made.of("sub/a.py"), made.of("a.py")
    sent = pickle.loads(pickle.dumps(made))
    for path in tmp_path.rglob("gafixer.toml"):
        path.unlink()
    assert (sent.of("sub/a.py"), sent.of("a.py")) == wanted
