"""What the rules say of a module: of its windows, heads and overrides, and of what it uses of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis import prefilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.project import Project
    from gafixer.analysis.requirements import Target
    from gafixer.analysis.source import Module
    from gafixer.codemod.fixes import Said
    from gafixer.codemod.subjects import Subject
    from gafixer.findings import Finding, Place
    from gafixer.settings import Settings

__all__ = ["SITES", "loudest", "module_name", "of_users", "said", "shown", "target"]

#: What a file must be about to have a loss that goes backward, by its own code or through `Trainer`.
SITES = prefilter.Matter.BACKWARD | prefilter.Matter.TRAINER


def shown(module: Module, project: Project, settings: Settings) -> tuple[list[Said], list[Finding]]:
    """What is said of each subject, and the findings that are severe enough to be shown."""
    entries, found = said(module, project, settings, prefilter.matter(module.source.encode()))
    return entries, [f for f in found if f.severity.rank >= settings.min_severity.rank]


def target(module: Module, project: Project, settings: Settings) -> Target:
    """The releases of Transformers that are meant."""
    from gafixer.analysis import requirements

    return requirements.target(project.requirement(module.path), settings.target_transformers)


def said(
    module: Module, project: Project, settings: Settings, about: prefilter.Matter
) -> tuple[list[Said], list[Finding]]:
    """What is said of each subject, and the findings that remain of it, in the order of the places."""
    from gafixer import precedence

    found: list[Finding] = []
    entries: list[Said] = []
    for subject, made in _judged(module, project, settings, about):
        every = [f for f in made if f.code in settings.selected]
        kept = [f for f in precedence.settle(made) if f.code in settings.selected]
        if every:
            entries.append((subject, tuple(every), tuple(kept)))
        found += kept
    return entries, loudest(found)


def _judged(
    module: Module, project: Project, settings: Settings, about: prefilter.Matter
) -> Iterator[tuple[Subject, list[Finding]]]:
    """The windows, heads and overrides of a module, and all that the rules say of each that decide what is told."""
    from gafixer import precedence, rulebook

    asked = precedence.asked(settings.selected)
    rules = [rule for rule in rulebook.load() if rule.code in asked]
    of_site = [rule.check for rule in rules if rule.check is not None]
    of_head = [rule.check_head for rule in rules if rule.check_head is not None]
    of_override = [rule.check_override for rule in rules if rule.check_override is not None]
    if of_site and about & SITES:
        from gafixer.analysis import build

        for site in build.sites(module, project, settings.declared):
            yield site, [f for check in of_site for f in check(site)]
    if not about & (prefilter.Matter.HEAD | prefilter.Matter.TRAINER):
        return
    from gafixer.analysis import heads, overrides

    meant = target(module, project, settings)
    if of_head and prefilter.Matter.HEAD in about:
        flagged = all(rule.flagged_heads for rule in rules if rule.check_head is not None)
        for head in heads.heads(module, project, flagged=flagged):
            yield head, [f for check in of_head for f in check(head, meant)]
    for override in overrides.overrides(module, project) if of_override and prefilter.Matter.TRAINER in about else ():
        yield override, [f for check in of_override for f in check(override, meant)]


def of_users(module: Module, project: Project, about: prefilter.Matter, settings: Settings) -> Iterator[Finding]:
    """What the rules say of what a module uses of the library; it is said at the requirement."""
    if prefilter.Matter.USER not in about:
        return
    from gafixer import rulebook
    from gafixer.analysis import uses

    checks = [r.check_uses for r in rulebook.load() if r.check_uses is not None and r.code in settings.selected]
    if checks and (used := uses.uses(module, project)) is not None:
        meant = target(module, project, settings)
        for check in checks:
            yield from check(used, meant)


def loudest(findings: list[Finding]) -> list[Finding]:
    """In the order of the places; of what one rule says of one place the loudest."""
    found: dict[tuple[str, Place], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.place)
        if key not in found or finding.severity.rank > found[key].severity.rank:
            found[key] = finding
    return sorted(found.values(), key=lambda f: f.order)


def module_name(path: str) -> str:
    """The dotted name that a file's path gives its module."""
    return path.removesuffix(".py").replace("/", ".").strip(".")
