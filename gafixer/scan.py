"""A scan of many files: read, prefilter, check, suppress, and share the work with other processes when that pays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer import engine, files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gafixer.analysis.project import Project
    from gafixer.findings import Finding
    from gafixer.settings import Settings

__all__ = ["Failure", "Outcome", "Scanner", "scan"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A file that could not be scanned: `reason` is one line, `trace` the traceback of a fault of our own."""

    path: str
    reason: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one file came to."""

    findings: tuple[Finding, ...] = ()
    failure: Failure | None = None


_NOTHING = Outcome()


class Scanner:
    """Scans file after file with one project. The analysis is imported when the first file needs it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._project: Project | None = None

    @property
    def project(self) -> Project:
        """What scanned files import is looked up here."""
        if self._project is None:
            from gafixer.analysis.project import FileProject

            self._project = FileProject()
        return self._project

    def path(self, path: str) -> Outcome:
        """Scan a file."""
        try:
            return self.source(files.read(path), path)
        except OSError as error:
            return Outcome(failure=Failure(path, files.reason(error)))

    def source(self, source: bytes, path: str) -> Outcome:
        """Scan a file that was read already. What goes wrong in the analysis is told, never raised."""
        if not engine.wanted(source):
            return _NOTHING
        try:
            report = engine.check_source(source, path, self.project, self._settings)
        except Exception as error:  # one file's trouble is not the other files'
            return Outcome(failure=_internal(path, error))
        return Outcome(report.findings) if report.findings else _NOTHING


def _internal(path: str, error: Exception) -> Failure:
    import traceback

    text = " ".join(str(error).split())
    reason = f"internal error: {type(error).__name__}{': ' + text if text else ''}"
    return Failure(path, reason, "".join(traceback.format_exception(error)))


def scan(
    paths: Sequence[str], named: frozenset[str], settings: Settings, jobs: int | None, tick: Callable[[int], None]
) -> Iterator[Outcome]:
    """The outcomes of the files that came to something; `tick` is told how many files are done.

    A file that vanishes before it is read is a failure only if it was named.
    """
    scanner = Scanner(settings)
    for done, path in enumerate(paths, 1):
        outcome = scanner.path(path)
        if outcome is not _NOTHING:
            yield outcome
        tick(done)
