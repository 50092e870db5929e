"""Fixes reach files: what is accepted, what files become of it, the patch. What one fix changes is written whole."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer import files, programs, writing
from gafixer.findings import Applicability
from gafixer.scan import Failure, Scanner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gafixer.baseline import Baseline
    from gafixer.findings import Finding, Fix
    from gafixer.mending import Loop, Other
    from gafixer.programs import Opened
    from gafixer.report.names import Names
    from gafixer.settings import Hierarchy

__all__ = ["Changed", "accepted", "change", "patch", "repair"]


@dataclass(frozen=True, slots=True)
class Changed:
    """A file with its fixes made, in memory: its program before and after, its new bytes, what was mended.

    `others` are files that these fixes changed, too; `loops` are those that were to be turned into loops of another
    framework, whether they were or not.
    """

    path: str
    file: Opened
    old: str
    new: str
    content: bytes
    fixed: tuple[Finding, ...]
    others: tuple[Changed, ...] = ()
    loops: tuple[Loop, ...] = ()

    @property
    def files(self) -> tuple[Changed, ...]:
        """All that changed, each by itself: first what was asked for a parameter, last what gives it."""
        return (*self.others, dataclasses.replace(self, others=()))

    def after(self, before: Changed | None) -> Changed:
        """The change of the file, together with the one before it."""
        if before is None:
            return self
        return dataclasses.replace(
            self,
            file=before.file,
            old=before.old,
            fixed=(*before.fixed, *self.fixed),
            loops=(*before.loops, *self.loops),
        )


def accepted(finding: Finding, *, unsafe: bool) -> bool:
    """Whether a finding has a fix that may be applied."""
    if finding.fix is None:
        return False
    return finding.fix.applicability is Applicability.SAFE or (
        unsafe and finding.fix.applicability is Applicability.UNSAFE
    )


def _accepted(finding: Finding, settings: Hierarchy) -> bool:
    return accepted(finding, unsafe=settings.of(finding.place.filename).unsafe_fixes)


def change(
    source: bytes,
    path: str,
    scanner: Scanner,
    baseline: Baseline | None = None,
    made: Mapping[str, Changed] | None = None,
    *,
    turn: bool = False,
) -> Changed | Failure | None:
    """Fix one file in memory, but for what a baseline knows; None where there is nothing to fix.

    `made` are the changes of other files that were made before, by path. `turn` its plain loops into loops of
    Accelerate first.
    """
    from gafixer.analysis.outside import shown
    from gafixer.analysis.source import UnreadableError

    try:
        file, _ = programs.opened(source, path).sound()
    except UnreadableError:  # found when it was scanned
        return None
    unsafe = scanner.settings.of(path).unsafe_fixes
    before = {} if made is None else {shown(Path(name)): changed for name, changed in made.items()}

    def accept(finding: Finding, now: bytes) -> bool:
        return accepted(finding, unsafe=unsafe) and (baseline is None or not baseline.knows(finding, now.decode()))

    turned = scanner.convert(file.code, path) if turn else None
    if isinstance(turned, Failure):
        return turned
    code = file.code if turned is None else turned.new.encode()
    repaired = scanner.repair(code, path, accept, {name: changed.new for name, changed in before.items()})
    if isinstance(repaired, Failure):
        return repaired
    first, last = turned or repaired, repaired or turned
    if first is None or last is None:
        return None
    old, new = first.old, last.new
    try:
        content = file.content(old, new)
        reached = repaired.others if repaired is not None else ()
        others = tuple(_other(other, scanner, before.get(other.path)) for other in reached)
    except (ValueError, OSError) as error:
        return Failure(path, f"not fixed: {error}")
    # The edits of one fix speak of the text that the fixes before it left.
    mended = repaired.fixed if repaired is not None else ()
    fixed = tuple(file.placed(dataclasses.replace(f, fix=_prose(f.fix))) for f in mended)
    loops = turned.loops if turned is not None else ()
    return Changed(path, file, old, new, content, fixed, others, loops)


def _other(other: Other, scanner: Scanner, before: Changed | None) -> Changed:
    """Another file that a fix changed, under the name that the scan has for it.

    Raises:
        ValueError: it isn't any more what it was when it was looked into.
    """
    from gafixer.analysis.outside import shown
    from gafixer.analysis.source import decode

    path = next(name for name in scanner.scanned if shown(Path(name)) == other.path)
    source = files.read(path) if before is None else before.content
    if decode(source) != other.old:
        raise ValueError(f"{path} changed meanwhile")
    file = programs.Script(source)
    return Changed(path, file, other.old, other.new, file.content(other.old, other.new), ())


def _prose(fix: Fix | None) -> Fix | None:
    return fix and dataclasses.replace(fix, edits=())


def repair(
    findings: Iterable[Finding],
    scanner: Scanner,
    baseline: Baseline | None,
    named: Sequence[str],
    *,
    keep: bool,
    turn: Sequence[str] = (),
) -> tuple[list[Changed], list[Failure]]:
    """Fix the files that have findings, where that is accepted; `keep` writes them.

    `named` are the paths that the scan was given. The plain loops of the files to `turn` become loops of Accelerate.
    """
    settings = scanner.settings
    changed: dict[str, Changed] = {}
    failures: list[Failure] = []
    told = list(findings)
    asked = (f for f in told if _is_program(f.place.filename) or _accepted(f, settings))
    paths = dict.fromkeys([*(f.place.filename for f in asked), *turn])
    for path in paths:
        try:
            source = changed[path].content if path in changed else files.read(path)
            if _is_program(path):
                made = change(source, path, scanner, baseline, changed, turn=path in turn)
            else:
                made = _edited(source, path, told, settings)
            if isinstance(made, Changed) and any(_leads_out(file.path, named) for file in made.files):
                made = Failure(path, "not fixed: it is, or goes together with, a link to a file elsewhere")
            if isinstance(made, Changed):
                written = {file.path: file.content for file in made.files if file.new != file.old}
                if keep and written:
                    writing.write_all(written)
                changed.update({file.path: file.after(changed.get(file.path)) for file in made.files})
            elif made is not None:
                failures.append(made)
        except OSError as error:
            where = "" if error.filename in {None, path} else f"{error.filename}: "
            failures.append(Failure(path, f"not fixed: {where}{files.reason(error)}"))
    return list(changed.values()), failures


def _leads_out(path: str, named: Sequence[str]) -> bool:
    """Whether a path that nobody named is a link to something that is under none of the named ones."""
    if path in named or not Path(path).is_symlink():
        return False
    target = Path(path).resolve()
    return not any(target.is_relative_to(Path(name).resolve()) for name in named or ["."])


def _is_program(path: str) -> bool:
    return path.endswith((".py", ".pyi")) or programs.is_notebook(path)


def _edited(source: bytes, path: str, findings: Iterable[Finding], settings: Hierarchy) -> Changed | Failure | None:
    """A file that is no program, such as one of requirements: nothing hides behind its findings."""
    from gafixer.codemod import edits

    mine = [f for f in findings if f.place.filename == path and _accepted(f, settings)]
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
