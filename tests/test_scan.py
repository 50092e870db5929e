"""The scan of one file and of many, below the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gafixer import engine, files, jobs, scan
from gafixer.analysis.checkout import FileProject
from gafixer.findings import Confidence, Finding, Place, Position, Severity, Span
from gafixer.scan import NOTHING, Scanner
from gafixer.settings import Hierarchy, Layer

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = Hierarchy(Layer(select=("GA101",)), isolated=True)
FOUND = Finding(
    "GA101",
    "mean-over-steps",
    "said",
    Severity.ERROR,
    Confidence.HIGH,
    Place("a.py", Span(Position(1, 1), Position(1, 2))),
)


@pytest.fixture(autouse=True)
def analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding in every file that holds `loss`."""
    monkeypatch.setattr(scan.Scanner, "project", FileProject())
    monkeypatch.setattr(engine, "wanted", lambda source: b"loss" in source)
    monkeypatch.setattr(engine, "check_source", lambda *_: engine.Report((FOUND,)))


def test_a_file_that_the_prefilter_rejects_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the analysis is touched."""
    monkeypatch.setattr(engine, "check_source", None)
    assert Scanner(SETTINGS).source(b"x = 1", "a.py") is NOTHING


def test_findings_and_comments() -> None:
    """A comment silences what the analysis found."""
    assert Scanner(SETTINGS).source(b"loss / 4", "a.py").findings == (FOUND,)
    assert Scanner(SETTINGS).source(b"loss / 4  # noqa: GA101", "a.py").findings == ()


def test_unreadable_and_vanished(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is told, the other is no trouble."""

    def denied(path: str) -> bytes:
        raise PermissionError(13, "Permission denied")

    assert Scanner(SETTINGS).path("/nowhere/a.py") is NOTHING
    monkeypatch.setattr(files, "read", denied)
    failure = Scanner(SETTINGS).path("a.py").failure
    assert failure is not None
    assert failure.line == "a.py: permission denied"


@pytest.mark.parametrize("error", [RecursionError(), MemoryError("no\nmore"), AssertionError("x")])
def test_internal_error(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """One line, with the traceback kept for who asks."""

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(engine, "check_source", fails)
    failure = Scanner(SETTINGS).source(b"loss", "a.py").failure
    assert failure is not None
    assert failure.line.startswith(f"a.py: internal error: {type(error).__name__}")
    assert "\n" not in failure.line
    assert "fails" in failure.trace


def test_relative_imports_beyond_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package scanned from inside: dots lead above the working directory, and at last above the root of all."""
    from gafixer.analysis.checkout import FileProject

    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    for path in (package / "__init__.py", package / "inner" / "__init__.py", package / "losses.py"):
        path.write_text("def loss(x):\n    return x.mean()\n")
    monkeypatch.chdir(package / "inner")
    project = FileProject()
    assert project.module("..losses", "train.py") is not None
    assert project.module("..", "train.py") is not None
    assert project.module("." * 50, "train.py") is None


def test_every_file_is_ticked_once(tmp_path: Path) -> None:
    """Whoever scans it; so the progress bar ends full."""
    paths = []
    for number in range(100):
        paths.append(str(tmp_path / f"f{number}.py"))
        (tmp_path / f"f{number}.py").write_text("x = 1\n")
    for processes in (1, 3):
        ticks: list[int] = []
        assert list(jobs.scan(paths, Scanner(SETTINGS, paths), processes, ticks.append)) == []
        assert sum(ticks) == 100


@pytest.mark.parametrize(
    ("done", "files", "seconds", "pays"),
    [(0, 1000, 0.3, False), (10, 1000, 0.1, False), (100, 110, 5.0, False), (100, 10_000, 0.3, True)],
)
def test_other_processes_are_started_when_they_pay(done: int, files: int, seconds: float, *, pays: bool) -> None:
    """Not before the pace is known, not for a short rest."""
    assert jobs._pays(done, files, seconds, most=2) is pays
