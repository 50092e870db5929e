"""Source in, findings out. Pure: no files are read here but through the project, nothing is printed."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis import prefilter
from gafixer.declared import NOTHING
from gafixer.findings import Applicability, Confidence, Detail, Finding, Place, Position, Severity, Span

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator, Sequence

    from gafixer.analysis.project import Project
    from gafixer.analysis.requirements import Target
    from gafixer.analysis.source import Module, UnreadableError
    from gafixer.codemod.fixes import Fixer, Said, Texts
    from gafixer.codemod.subjects import Subject
    from gafixer.declared import Declared
    from gafixer.settings import Settings

__all__ = [
    "Converted",
    "Loop",
    "Other",
    "Repaired",
    "Report",
    "check_source",
    "convert",
    "is_python",
    "repair",
    "trace",
    "unreadable",
    "wanted",
    "wanted_notebook",
]


@dataclass(frozen=True, slots=True)
class Report:
    """What a scan of one file says, in the order of the places."""

    findings: tuple[Finding, ...]


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


def wanted(source: bytes) -> bool:
    """Whether a file is worth looking into: it may train, or it is no text at all."""
    if prefilter.may_matter(source) or b"\0" in source:
        return True
    if source.isascii() and b"coding" not in source[:400]:
        return False
    from gafixer.analysis.source import UnreadableError, decode

    try:
        decode(source)
    except UnreadableError:
        return True
    return False


def wanted_notebook(source: bytes) -> bool:
    """Whether a notebook is worth opening: what it holds may train, or it is no text at all."""
    if prefilter.may_matter_in_json(source) or b"\0" in source:
        return True
    try:
        source.decode()
    except UnicodeDecodeError:
        return True
    return False


def is_python(source: bytes) -> bool:
    """Whether Python accepts the source; asked of files that are named, which the prefilter passes over."""
    from gafixer.analysis.source import syntax_error

    return syntax_error(source) is None


def check_source(
    source: bytes, path: str, project: Project, settings: Settings, detail: Detail = Detail.EDITS
) -> Report:
    """Scan one file.

    `path` is the name that findings carry; `project` answers what the modules that it imports say. A file that does
    not decode or parse has one finding, GA900. `detail` is how much of the fixes is asked for.
    """
    from gafixer.analysis.source import Module, UnreadableError

    about = prefilter.matter(source)
    # Heads are looked at block by block: of a large file most blocks are none.
    whole = bool(about & (prefilter.Matter.BACKWARD | prefilter.Matter.TRAINER)) or not about
    try:
        module = Module.read(_name(path), path, source, whole=whole)
        found = _fixable(module, project, settings, about, detail)
        found += [f for f in _of_users(module, project, about, settings) if f.code in settings.selected]
        if module.broken:
            Module.read(_name(path), path, source, whole=True)
    except UnreadableError as error:
        return Report(unreadable(path, error, settings))
    return Report(tuple(_loudest(found)))


#: What a file must be about to have a loss that goes backward, by its own code or through `Trainer`.
_SITES = prefilter.Matter.BACKWARD | prefilter.Matter.TRAINER


def _fixable(
    module: Module, project: Project, settings: Settings, about: prefilter.Matter, detail: Detail
) -> list[Finding]:
    """What is said of a module's windows, heads and overrides, with fixes for what is shown."""
    said, found = _said(module, project, settings, about)
    shown = [f for f in found if f.severity.rank >= settings.min_severity.rank]
    if not shown:
        return found
    if detail is Detail.NOTHING:
        module.whole()
        return found
    fixer = _fixer(module, project, settings, detail)
    made = {key: fix for key, (fix, _) in fixer.fixes(said, shown).items()}
    return [dataclasses.replace(f, fix=made.get((f.code, f.place))) for f in found]


def _loudest(findings: list[Finding]) -> list[Finding]:
    """In the order of the places; of what one rule says of one place the loudest."""
    found: dict[tuple[str, Place], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.place)
        if key not in found or finding.severity.rank > found[key].severity.rank:
            found[key] = finding
    return sorted(found.values(), key=lambda f: f.order)


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

    first = Module.read(_name(path), path, source, whole=True)
    module, fixed, texts = first, list[Finding](), dict[str, str]()
    seen: tuple[Sequence[Said], Sequence[Finding]] = _shown(module, project, settings)
    for _ in range(_MOST_ROUNDS):
        if not seen[1]:
            break
        fixer = _fixer(module, Changed(project, texts), settings, Detail.PROSE)
        new, mended = _round(module, fixer, seen, accept)
        if not mended:
            break
        fixed += mended
        texts |= new
        module = module.changed(texts[path])
        seen = fixer.scanned(new) or _shown(module, Changed(project, texts), settings)
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

    module = Module.read(_name(path), path, source, whole=True)
    about = prefilter.matter(source)
    if not about & _SITES:
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
    said, found = _said(module, project, settings, about)
    shown = [f for f in found if f.severity.rank >= settings.min_severity.rank]
    fixer = _fixer(module, project, settings)
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


def _fixer(module: Module, project: Project, settings: Settings, detail: Detail = Detail.EDITS) -> Fixer:
    from gafixer.analysis.project import Changed
    from gafixer.codemod.fixes import Fixer
    from gafixer.codemod.tree import Tree

    def beside(path: str) -> Tree | None:
        other = project.editable(path)
        return None if other is None or path == module.path else Tree(other.source, path)

    def scan(texts: Texts) -> tuple[list[Said], list[Finding]]:
        now = Changed(project, texts)
        said, shown = _shown(module.changed(texts[module.path]), now, settings)
        for path in texts:
            if path != module.path and (other := now.editable(path)) is not None:
                shown += _gained(other, project, now, settings)
        return said, shown

    def derived(name: str) -> list[ast.ClassDef]:
        found = project.subclasses(name, module.path)
        return [node for other, cls in found for node in other.classes(cls)]

    tree = Tree(module.source, module.path, functools.cache(beside), derived, module.whole())
    return Fixer(tree, settings, scan, _target(module, project, settings), detail)


def _gained(module: Module, before: Project, now: Project, settings: Settings) -> list[Finding]:
    """What is shown of a changed file, which is no scanned one, and was not before."""
    old = before.editable(module.path)
    assert old is not None
    known = Counter(f.code for f in _shown(old, before, settings)[1])
    found = []
    for finding in _shown(module, now, settings)[1]:
        if known[finding.code]:
            known[finding.code] -= 1
        else:
            found.append(finding)
    return found


def _shown(module: Module, project: Project, settings: Settings) -> tuple[list[Said], list[Finding]]:
    said, found = _said(module, project, settings, prefilter.matter(module.source.encode()))
    return said, [f for f in found if f.severity.rank >= settings.min_severity.rank]


def _target(module: Module, project: Project, settings: Settings) -> Target:
    """The releases of Transformers that are meant."""
    from gafixer.analysis import requirements

    return requirements.target(project.requirement(module.path), settings.target_transformers)


def _said(
    module: Module, project: Project, settings: Settings, about: prefilter.Matter
) -> tuple[list[Said], list[Finding]]:
    """What is said of each subject, and the findings that remain of it, in the order of the places."""
    from gafixer import precedence

    found: list[Finding] = []
    said: list[Said] = []
    for subject, made in _judged(module, project, settings, about):
        every = [f for f in made if f.code in settings.selected]
        kept = [f for f in precedence.settle(made) if f.code in settings.selected]
        if every:
            said.append((subject, tuple(every), tuple(kept)))
        found += kept
    return said, _loudest(found)


def _judged(
    module: Module, project: Project, settings: Settings, about: prefilter.Matter
) -> Iterator[tuple[Subject, list[Finding]]]:
    """The windows, heads and overrides of a module, and all that the rules say of each."""
    from gafixer import rulebook

    rules = rulebook.load()
    if about & _SITES:
        from gafixer.analysis import build

        for site in build.sites(module, project, settings.declared):
            yield site, [f for rule in rules if rule.check is not None for f in rule.check(site)]
    if not about & (prefilter.Matter.HEAD | prefilter.Matter.TRAINER):
        return
    from gafixer.analysis import heads, overrides

    meant = _target(module, project, settings)
    for head in heads.heads(module, project) if prefilter.Matter.HEAD in about else ():
        yield head, [f for rule in rules if rule.check_head is not None for f in rule.check_head(head, meant)]
    for override in overrides.overrides(module, project) if prefilter.Matter.TRAINER in about else ():
        made = [f for rule in rules if rule.check_override is not None for f in rule.check_override(override, meant)]
        yield override, made


def _of_users(module: Module, project: Project, about: prefilter.Matter, settings: Settings) -> Iterator[Finding]:
    """What the rules say of what a module uses of the library; it is said at the requirement."""
    if prefilter.Matter.USER not in about:
        return
    from gafixer import rulebook
    from gafixer.analysis import uses

    if (used := uses.uses(module, project)) is not None:
        meant = _target(module, project, settings)
        for rule in rulebook.load():
            if rule.check_uses is not None:
                yield from rule.check_uses(used, meant)


def trace(
    source: bytes,
    path: str,
    project: Project,
    row: int,
    declared: Declared = NOTHING,
    label: Callable[[int], str] = str,
) -> str:
    """How the loss that goes backward at (or nearest above or below) a row was evaluated, term by term.

    `label` names a row of the file for a reader.

    Raises:
        UnreadableError: the file is no Python.
    """
    from gafixer.analysis import build
    from gafixer.analysis.source import Module
    from gafixer.report.trace import render

    module = Module.read(_name(path), path, source, whole=True)
    sites = build.sites(module, project, declared)
    return render(min(sites, key=lambda s: abs(s.backward.spot.row - row)) if sites else None, module, row, label)


def unreadable(path: str, error: UnreadableError, settings: Settings) -> tuple[Finding, ...]:
    """The finding for a file that is no Python, if that is wanted."""
    if "GA900" not in settings.selected:
        return ()
    here = Position(error.row, error.column)
    found = Finding(
        "GA900",
        "unreadable",
        error.message,
        Severity.ERROR,
        Confidence.HIGH,
        Place(path, Span(here, dataclasses.replace(here, column=here.column + 1))),
        help="mend the file, or exclude it",
    )
    return (found,)


def _name(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").strip(".")
