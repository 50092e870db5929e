"""The scan of a file: read, prefilter, check, heed its comments."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gafixer import comments, engine, files, mending, programs
from gafixer.findings import Detail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gafixer.analysis.checkout import FileProject
    from gafixer.analysis.project import Project
    from gafixer.cache.answers import Answer, Answers, Question, Recorder
    from gafixer.contents import Contents
    from gafixer.findings import Finding
    from gafixer.settings import Hierarchy

__all__ = ["NOTHING", "Failure", "Outcome", "Record", "Scanner"]


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
class Record:
    """What may be told of a file in a later scan, and all that this depends on.

    These are what the file holds and its settings, by their digests, and what was asked about other files, with the
    answers.
    """

    path: str
    digest: str
    signature: str
    detail: Detail
    asked: tuple[tuple[Question, Answer], ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one file came to. It has a record where a scan that records looked into the file."""

    findings: tuple[Finding, ...] = ()
    failure: Failure | None = None
    record: Record | None = None

    @property
    def path(self) -> str | None:
        """The file, as far as that is known without findings."""
        if self.record is not None:
            return self.record.path
        return None if self.failure is None else self.failure.path


NOTHING: Final = Outcome()


class Scanner:
    """Scans file after file with one project. The analysis is imported when the first file needs it.

    `scanned` are all files of this scan: those that a fix of one of them may change, too. `detail` says how much of
    the fixes of findings is needed. With `records` an outcome has a record of what it depends on.
    """

    def __init__(
        self,
        settings: Hierarchy,
        scanned: Sequence[str] = (),
        detail: Detail = Detail.EDITS,
        *,
        records: bool = False,
    ) -> None:
        self.settings = settings
        self.scanned = scanned
        self.detail = detail
        self.records = records

    @property
    def made_of(self) -> tuple[Hierarchy, Sequence[str], Detail, bool]:
        """What another process needs to scan like this one."""
        return self.settings, self.scanned, self.detail, self.records

    @functools.cached_property
    def project(self) -> FileProject:
        """What scanned files import is looked up here."""
        from gafixer.analysis.checkout import FileProject

        return FileProject(self.scanned, self._contents)

    @functools.cached_property
    def _contents(self) -> Contents:
        from gafixer.contents import Contents

        return Contents()

    @functools.cached_property
    def _answers(self) -> Answers:
        from gafixer.cache.answers import Answers

        return Answers(self.project, self._contents, self.settings)

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
                return self._program(programs.opened(source, path), source, path, named=named)
            except UnreadableError as error:
                return Outcome(engine.unreadable(path, error, self.settings.of(path)))
        return self._program(programs.Script(source), source, path, named=named)

    def _program(self, file: programs.Opened, source: bytes, path: str, *, named: bool) -> Outcome:
        try:
            if engine.wanted(file.code) or (named and not engine.is_python(file.code)):
                return self._looked_into(file, source, path)
            if not comments.judges(file.code):
                return NOTHING
            here, elsewhere = self._settled(file.code, path, ())
            return self._outcome(tuple(map(file.placed, (*here, *elsewhere))), source, path, self._recorder())
        except Exception as error:  # one file's trouble is not the other files'
            return Outcome(failure=_internal(path, error))

    def _looked_into(self, file: programs.Opened, source: bytes, path: str) -> Outcome:
        settings, recorder = self.settings.of(path), self._recorder()
        sound, errors = file.sound()
        self.project.forget()
        project = self.project if recorder is None else recorder
        found = engine.check_source(sound.code, path, project, settings, self.detail).findings
        told = [file.placed(f) for error in errors for f in engine.unreadable(path, error, settings)]
        here, elsewhere = self._settled(sound.code, path, found)
        every = (*told, *map(sound.placed, (*here, *elsewhere)))
        if recorder is not None:
            recorder.asked |= {("selected", name): None for name in {f.place.filename for f in found} - {path}}
        return self._outcome(every, source, path, recorder)

    def _outcome(self, found: tuple[Finding, ...], source: bytes, path: str, recorder: Recorder | None) -> Outcome:
        if recorder is None:
            return Outcome(found) if found else NOTHING
        return Outcome(found, record=self._record(path, source, recorder, found))

    def _recorder(self) -> Recorder | None:
        if not self.records:
            return None
        from gafixer.cache.answers import Recorder

        return Recorder(self.project)

    def _record(self, path: str, source: bytes, recorder: Recorder, found: tuple[Finding, ...]) -> Record:
        from gafixer.cache.answers import signature
        from gafixer.contents import digest

        asked = tuple((question, self._answers.of(question)) for question in recorder.asked)
        return Record(path, digest(source), signature(self.settings.of(path)), self.detail, asked, found)

    def _settled(
        self, source: bytes, path: str, found: tuple[Finding, ...]
    ) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
        """The findings in a file, as its comments leave them, and those in others: at a requirement, for example."""
        settings = self.settings.of(path)
        here = tuple(finding for finding in found if finding.place.filename == path)
        others = [finding for finding in found if finding.place.filename != path]
        elsewhere = tuple(f for f in others if f.code in self.settings.of(f.place.filename).selected)
        if not settings.ignore_comments and comments.speaks(source):
            here = comments.settle(source, path, here, settings.selected)
        return here, elsewhere

    def convert(self, source: bytes, path: str) -> mending.Converted | Failure | None:
        """Turn the plain loops of a program into loops of Accelerate, in memory."""
        try:
            return (
                mending.convert(source, path, self.project, self.settings.of(path)) if engine.wanted(source) else None
            )
        except Exception as error:  # one file's trouble is not the other files'
            return _internal(path, error)

    def repair(
        self,
        source: bytes,
        path: str,
        accept: Callable[[Finding, bytes], bool],
        texts: Mapping[str, str],
    ) -> mending.Repaired | Failure | None:
        """Fix a program in memory: the findings that `accept` takes (with its bytes then) and no comment silences.

        `texts` are those of files that were fixed before.
        """
        from gafixer.analysis.project import Changed

        settings = self.settings.of(path)

        def take(finding: Finding, now: bytes) -> bool:
            return accept(finding, now) and (settings.ignore_comments or bool(comments.suppress(now, [finding])))

        try:
            project = Changed(self.project, texts)
            made = mending.repair(source, path, project, settings, take)
            return self._without_idle(source, path, made, accept, project)
        except Exception as error:  # one file's trouble is not the other files'
            return _internal(path, error)

    def _without_idle(
        self,
        source: bytes,
        path: str,
        made: mending.Repaired | None,
        accept: Callable[[Finding, bytes], bool],
        project: Project,
    ) -> mending.Repaired | None:
        """What a fix left, without the comments that silence nothing, where that is accepted."""
        if not comments.judges(source) or self.settings.of(path).ignore_comments:
            return made
        from gafixer.analysis.project import Changed
        from gafixer.analysis.source import decode
        from gafixer.codemod import edits

        old = decode(source) if made is None else made.old
        new = old if made is None else made.new
        now = new.encode()
        others = () if made is None else made.others
        changed = Changed(project, {other.path: other.new for other in others})
        found = engine.check_source(now, path, changed, self.settings.of(path)).findings
        here, _ = self._settled(now, path, found)
        idle = tuple(finding for finding in here if finding.code == comments.UNUSED and accept(finding, now))
        if not idle:
            return made
        new = edits.apply(new, [edit for finding in idle if finding.fix is not None for edit in finding.fix.edits])
        return mending.Repaired(old, new, (*(made.fixed if made is not None else ()), *idle), others)


def _internal(path: str, error: Exception) -> Failure:
    import traceback

    text = " ".join(str(error).split())
    reason = f"internal error: {type(error).__name__}{': ' + text if text else ''}"
    return Failure(path, reason, "".join(traceback.format_exception(error)))
