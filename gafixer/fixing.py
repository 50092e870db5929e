"""Fixes reach files: what is accepted, the patch, and the write that leaves the old file or the new one."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import re
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer import files, programs
from gafixer.findings import Applicability
from gafixer.scan import Failure, Scanner

try:
    import fcntl
except ImportError:  # Windows, where a file that is open can't be removed
    fcntl = None  # type: ignore[assignment]  # a module elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gafixer.baseline import Baseline
    from gafixer.engine import Loop
    from gafixer.findings import Finding, Fix
    from gafixer.programs import Opened
    from gafixer.report.names import Names
    from gafixer.settings import Hierarchy

__all__ = ["Changed", "accepted", "change", "patch", "repair", "write"]

#: A file of ours that is not yet whole. Nobody calls one of their own so, and it may be removed.
_PREFIX, _SUFFIX = ".gafixer-write-", ".tmp"
_UNFINISHED = re.compile(rf"{re.escape(_PREFIX)}[a-z0-9_]{{8}}{re.escape(_SUFFIX)}")


@dataclass(frozen=True, slots=True)
class Changed:
    """A file with its fixes made, in memory: its program before and after, its new bytes, what was mended.

    `loops` are those that were to be turned into loops of another framework, whether they were or not.
    """

    path: str
    file: Opened
    old: str
    new: str
    content: bytes
    fixed: tuple[Finding, ...]
    loops: tuple[Loop, ...] = ()


def accepted(finding: Finding, *, unsafe: bool) -> bool:
    """Whether a finding has a fix that may be applied."""
    if finding.fix is None or not finding.fix.edits:
        return False
    return finding.fix.applicability is Applicability.SAFE or (
        unsafe and finding.fix.applicability is Applicability.UNSAFE
    )


def change(
    source: bytes, path: str, settings: Hierarchy, baseline: Baseline | None = None, *, turn: bool = False
) -> Changed | Failure | None:
    """Fix one file in memory, but for what a baseline knows; None where there is nothing to fix.

    `turn` its plain loops into loops of Accelerate first.
    """
    from gafixer.analysis.source import UnreadableError

    try:
        file, _ = programs.opened(source, path).sound()
    except UnreadableError:  # found when it was scanned
        return None
    unsafe = settings.of(path).unsafe_fixes

    def accept(finding: Finding, now: bytes) -> bool:
        return accepted(finding, unsafe=unsafe) and (baseline is None or not baseline.knows(finding, now.decode()))

    scanner = Scanner(settings)
    turned = scanner.convert(file.code, path) if turn else None
    if isinstance(turned, Failure):
        return turned
    repaired = scanner.repair(file.code if turned is None else turned.new.encode(), path, accept)
    if isinstance(repaired, Failure):
        return repaired
    first, last = turned or repaired, repaired or turned
    if first is None or last is None:
        return None
    old, new = first.old, last.new
    try:
        content = file.content(old, new)
    except ValueError as error:
        return Failure(path, f"not fixed: {error}")
    # The edits of one fix speak of the text that the fixes before it left.
    mended = repaired.fixed if repaired is not None else ()
    fixed = tuple(file.placed(dataclasses.replace(f, fix=_prose(f.fix))) for f in mended)
    return Changed(path, file, old, new, content, fixed, turned.loops if turned is not None else ())


def _prose(fix: Fix | None) -> Fix | None:
    return fix and dataclasses.replace(fix, edits=())


def repair(
    findings: Iterable[Finding],
    settings: Hierarchy,
    baseline: Baseline | None,
    *,
    keep: bool,
    turn: Sequence[str] = (),
) -> tuple[list[Changed], list[Failure]]:
    """Fix the files that have findings with an accepted fix; `keep` writes them.

    The plain loops of the files to `turn` become loops of Accelerate.
    """
    changed: list[Changed] = []
    failures: list[Failure] = []
    told = list(findings)
    mended = (f.place.filename for f in told if accepted(f, unsafe=settings.of(f.place.filename).unsafe_fixes))
    paths = dict.fromkeys([*mended, *turn])
    for path in paths:
        try:
            source = files.read(path)
            if _is_program(path):
                made = change(source, path, settings, baseline, turn=path in turn)
            else:
                made = _edited(source, path, told, settings)
            if isinstance(made, Changed):
                if keep and made.new != made.old:
                    write(path, made.content)
                changed.append(made)
            elif made is not None:
                failures.append(made)
        except OSError as error:
            failures.append(Failure(path, f"not fixed: {files.reason(error)}"))
    return changed, failures


def _is_program(path: str) -> bool:
    return path.endswith((".py", ".pyi")) or programs.is_notebook(path)


def _edited(source: bytes, path: str, findings: Iterable[Finding], settings: Hierarchy) -> Changed | Failure | None:
    """A file that is no program, such as one of requirements: nothing hides behind its findings."""
    from gafixer.codemod import edits

    unsafe = settings.of(path).unsafe_fixes
    mine = [f for f in findings if f.place.filename == path and accepted(f, unsafe=unsafe)]
    made = {edit for f in mine if f.fix is not None for edit in f.fix.edits}
    if len({edit.span for edit in made}) != len(made):
        return Failure(path, "not fixed: its requirement is asked to be two things")
    file = programs.Script(source)
    old = file.text(None)
    new = edits.apply(old, made)
    fixed = tuple(dataclasses.replace(f, fix=_prose(f.fix)) for f in mine)
    return Changed(path, file, old, new, file.content(old, new), fixed)


def patch(changed: Sequence[Changed], names: Names) -> str:
    """One patch of all files, as git applies it but for notebooks; paths are relative to the working directory."""
    return "".join(c.file.patch(c.old, c.new, names.relative(c.path)) for c in changed)


def write(path: str, content: bytes) -> None:
    """Put new content in a file's place at once; its mode stays, links to it stay links.

    Raises:
        OSError: it is read-only, or can't be written.
    """
    target = os.path.realpath(path)
    if not stat.S_IMODE(Path(target).stat().st_mode) & 0o222 or not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "read-only file")
    folder = Path(target).parent
    _sweep(folder)
    descriptor, name = _temporary(folder)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
            shutil.copymode(target, name)
            if fcntl is not None:  # held until it is in place; elsewhere a file that is open can't be moved either
                Path(name).replace(target)
        if fcntl is None:
            Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _temporary(folder: Path) -> tuple[int, str]:
    """A new file that is held: made again where another run's sweep came between its making and its holding."""
    while True:
        descriptor, name = tempfile.mkstemp(_SUFFIX, _PREFIX, folder)
        with contextlib.suppress(BlockingIOError):
            _hold(descriptor)
            if Path(name).exists():
                return descriptor, name
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    """Remove what a run that was killed left in a folder; what another run is writing is held by it and stays."""
    left = [path for path in folder.iterdir() if _UNFINISHED.fullmatch(path.name)]
    for path in filter(Path.is_file, left):
        with contextlib.suppress(OSError), path.open("rb") as handle:
            _hold(handle.fileno())
            path.unlink()


def _hold(descriptor: int) -> None:
    """Lock a file until it is closed.

    Raises:
        OSError: somebody else holds it.
    """
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
