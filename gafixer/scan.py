"""The scan of a file: read, prefilter, check, suppress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gafixer import engine, files, programs

if TYPE_CHECKING:
    from collections.abc import Callable

    from gafixer.analysis.project import Project
    from gafixer.findings import Finding
    from gafixer.settings import Hierarchy

__all__ = ["NOTHING", "Failure", "Outcome", "Scanner"]


@dataclass(frozen=True, slots=True)
class Failure:
    """What could not be scanned: `path` may be empty, `trace` is the traceback of a fault of our own."""

    path: str
    reason: str
    trace: str = ""

    @property
    def line(self) -> str:
        """The failure in one line."""
        return f"{self.path}: {self.reason}" if self.path else self.reason


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one file came to."""

    findings: tuple[Finding, ...] = ()
    failure: Failure | None = None


NOTHING: Final = Outcome()


class Scanner:
    """Scans file after file with one project. The analysis is imported when the first file needs it."""

    def __init__(self, settings: Hierarchy) -> None:
        self.settings = settings
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
        except FileNotFoundError:  # it vanished since it was found
            return NOTHING
        except OSError as error:
            return Outcome(failure=Failure(path, files.reason(error)))

    def named(self, path: str) -> Outcome:
        """What is still to be said of a file that was named: that it is no Python, though nothing in it may train."""
        try:
            source = files.read(path)
        except OSError:  # told when it was scanned
            return NOTHING
        known = engine.wanted_notebook if programs.is_notebook(path) else engine.wanted
        return NOTHING if known(source) else self.source(source, path, named=True)

    def source(self, source: bytes, path: str, *, named: bool = False) -> Outcome:
        """Scan a file that was read already. What goes wrong in the analysis is told, never raised.

        Of a file in a folder only what may train is looked at; one that is `named` has to be Python in any case.
        """
        if programs.is_notebook(path):
            if not named and not engine.wanted_notebook(source):
                return NOTHING
            from gafixer.analysis.source import UnreadableError

            try:
                return self._program(programs.opened(source, path), path, named=named)
            except UnreadableError as error:
                return Outcome(engine.unreadable(path, error, self.settings.of(path)))
        return self._program(programs.Script(source), path, named=named)

    def _program(self, file: programs.Opened, path: str, *, named: bool) -> Outcome:
        source = file.code
        if not engine.wanted(source) and not (named and not engine.is_python(source)):
            return NOTHING
        try:
            sound, errors = file.sound()
            told = [file.placed(f) for error in errors for f in engine.unreadable(path, error, self.settings.of(path))]
            source = sound.code
            report = engine.check_source(source, path, self.project, self.settings.of(path))
            if not report.findings and not told:
                return NOTHING
            from gafixer.suppress import suppress

            # A finding may stand in another file, at a requirement: comments of this one don't speak of it.
            here = tuple(finding for finding in report.findings if finding.place.filename == path)
            elsewhere = tuple(
                finding
                for finding in report.findings
                if finding.place.filename != path and finding.code in self.settings.of(finding.place.filename).selected
            )
            return Outcome((*told, *map(sound.placed, (*suppress(source, here), *elsewhere))))
        except Exception as error:  # one file's trouble is not the other files'
            return Outcome(failure=_internal(path, error))

    def repair(self, source: bytes, path: str, accept: Callable[[Finding], bool]) -> engine.Repaired | Failure | None:
        """Fix a program in memory: the findings that `accept` takes and that no comment silences."""
        from gafixer.suppress import suppress

        def take(finding: Finding, now: bytes) -> bool:
            return accept(finding) and bool(suppress(now, [finding]))

        try:
            return engine.repair(source, path, self.project, self.settings.of(path), take)
        except Exception as error:  # one file's trouble is not the other files'
            return _internal(path, error)


def _internal(path: str, error: Exception) -> Failure:
    import traceback

    text = " ".join(str(error).split())
    reason = f"internal error: {type(error).__name__}{': ' + text if text else ''}"
    return Failure(path, reason, "".join(traceback.format_exception(error)))
