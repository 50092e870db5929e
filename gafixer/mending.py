"""Source in, mended source out. Pure: no files are read here but through the project, nothing is printed."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer import judgement
from gafixer.analysis import prefilter
from gafixer.findings import Applicability, Detail, Finding

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Sequence

    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Module
    from gafixer.codemod.fixes import Fixer, Said, Texts
    from gafixer.settings import Settings

__all__ = ["Converted", "Loop", "Other", "Repaired", "convert", "fixer_of", "repair"]


@dataclass(frozen=True, slots=True)
class Repaired:
    """What fixing a file came to: its text before and after, and the findings that were mended.

    `others` are other files that this changed, with their texts: all belong together.
    """

    old: str
    new: str
    fixed: tuple[Finding, ...]
    others: tuple[Other, ...] = ()


@dataclass(frozen=True, slots=True)
class Other:
    """Another file that the fix of a file changed."""

    path: str
    old: str
    new: str


def repair(
    source: bytes, path: str, project: Project, settings: Settings, accept: Callable[[Finding, bytes], bool]
) -> Repaired | None:
    """Fix one file in memory: all findings that have a fix and that `accept` takes, given the source that they are in.

    None: there is nothing to fix.

    Raises:
        UnreadableError: the file is no Python.
    """
    from gafixer.analysis.project import Changed
    from gafixer.analysis.source import Module

    first = Module.read(judgement.module_name(path), path, source, whole=True)
    module, fixed, texts = first, list[Finding](), dict[str, str]()
    seen: tuple[Sequence[Said], Sequence[Finding]] = judgement.shown(module, project, settings)
    for _ in range(_MOST_ROUNDS):
        if not seen[1]:
            break
        fixer = fixer_of(module, Changed(project, texts), settings, Detail.PROSE)
        new, mended = _round(module, fixer, seen, accept)
        if not mended:
            break
        fixed += mended
        texts |= new
        module = module.changed(texts[path])
        seen = fixer.scanned(new) or judgement.shown(module, Changed(project, texts), settings)
    others = ((name, project.editable(name), text) for name, text in texts.items() if name != path)
    made = tuple(Other(name, other.source, text) for name, other, text in others if other is not None)
    return Repaired(first.source, module.source, tuple(fixed), made) if fixed else None


@dataclass(frozen=True, slots=True)
class Loop:
    """A plain loop that was to be turned into one of another framework, told by its backward call.

    `message` says what was assumed, or where nothing was `done` why.
    """

    row: int
    done: bool
    message: str


@dataclass(frozen=True, slots=True)
class Converted:
    """What turning a file's plain loops into loops of Accelerate came to."""

    old: str
    new: str
    loops: tuple[Loop, ...]


def convert(source: bytes, path: str, project: Project, settings: Settings) -> Converted | None:
    """Turn the plain training loops of a file into loops of Accelerate, in memory. None: it has none.

    Raises:
        UnreadableError: the file is no Python.
    """
    from gafixer.analysis import build, windows
    from gafixer.analysis.events import Framework
    from gafixer.analysis.source import Module

    module = Module.read(judgement.module_name(path), path, source, whole=True)
    if not prefilter.matter(source) & judgement.SITES:
        return None
    every = build.sites(module, project, settings.declared)
    plain = [
        site
        for site in every
        if site.framework is Framework.TORCH
        and site.backward.spot.path == path
        and site.window.shape is not windows.Shape.UNSEEN
    ]
    if not plain:
        return None
    said, shown = judgement.shown(module, project, settings)
    fixer = fixer_of(module, project, settings)
    made = fixer.conversions(plain, said, shown)
    texts, applied = fixer.together([c.plan for c in made if c.plan is not None])
    loops = []
    for one in made:
        done = one.plan is not None and one.plan in applied
        reason = one.message if done or one.plan is None else "it contradicts another loop's"
        loops.append(Loop(one.site.backward.spot.row, done, reason))
    return Converted(module.source, texts[path], tuple(loops))


#: A fix can bring to light what it hid; this is far beyond what was ever seen.
_MOST_ROUNDS = 8


def _round(
    module: Module,
    fixer: Fixer,
    seen: tuple[Sequence[Said], Sequence[Finding]],
    accept: Callable[[Finding, bytes], bool],
) -> tuple[Texts, list[Finding]]:
    """The plans of all windows at once; where none is left, one window that needs more than one plan."""
    said, shown = seen
    made = fixer.fixes(said, shown)
    offered = [dataclasses.replace(f, fix=made[f.code, f.place][0]) for f in shown if (f.code, f.place) in made]
    taken = [f for f in offered if _is_made(f) and accept(f, module.source.encode())]
    plans = dict.fromkeys(plan for f in taken if (plan := made[f.code, f.place][1]) is not None)
    new, applied = fixer.together(list(plans))
    if applied:
        return new, [f for f in taken if made[f.code, f.place][1] in applied]
    if not taken or taken[0].fix is None:
        return {}, []
    return fixer.edited(taken[0].fix.edits), [f for f in taken if f.fix == taken[0].fix]


def _is_made(finding: Finding) -> bool:
    """Whether a finding has a fix that is more than prose."""
    return finding.fix is not None and finding.fix.applicability is not Applicability.DISPLAY


def fixer_of(module: Module, project: Project, settings: Settings, detail: Detail = Detail.EDITS) -> Fixer:
    """What fixes the findings of a module, each fix verified by a scan of what it leaves."""
    from gafixer.analysis.project import Changed
    from gafixer.codemod.fixes import Fixer
    from gafixer.codemod.tree import Tree

    def beside(path: str) -> Tree | None:
        other = project.editable(path)
        return None if other is None or path == module.path else Tree(other.source, path)

    def scan(texts: Texts) -> tuple[list[Said], list[Finding]]:
        now = Changed(project, texts)
        said, shown = judgement.shown(module.changed(texts[module.path]), now, settings)
        for path in texts:
            if path != module.path and (other := now.editable(path)) is not None:
                shown += _gained(other, project, now, settings)
        return said, shown

    def derived(name: str) -> list[ast.ClassDef]:
        found = project.subclasses(name, module.path)
        return [node for other, cls in found for node in other.classes(cls)]

    tree = Tree(module.source, module.path, functools.cache(beside), derived, module.whole())
    return Fixer(tree, settings, scan, judgement.target(module, project, settings), detail)


def _gained(module: Module, before: Project, now: Project, settings: Settings) -> list[Finding]:
    """What is shown of a changed file, which is no scanned one, and was not before."""
    old = before.editable(module.path)
    assert old is not None
    known = Counter(f.code for f in judgement.shown(old, before, settings)[1])
    found = []
    for finding in judgement.shown(module, now, settings)[1]:
        if known[finding.code]:
            known[finding.code] -= 1
        else:
            found.append(finding)
    return found
