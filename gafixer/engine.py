"""Source in, findings out. Pure: no files are read here but through the project, nothing is printed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis import prefilter
from gafixer.findings import Confidence, Finding, Place, Position, Severity, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Module, UnreadableError
    from gafixer.settings import Settings

__all__ = ["Report", "check_source", "trace", "wanted"]


@dataclass(frozen=True, slots=True)
class Report:
    """What a scan of one file says, in the order of the places."""

    findings: tuple[Finding, ...]


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


def check_source(source: bytes, path: str, project: Project, settings: Settings) -> Report:
    """Scan one file.

    `path` is the name that findings carry; `project` answers what the modules that it imports say. A file that does
    not decode or parse has one finding, GA900.
    """
    from gafixer.analysis.source import Module, UnreadableError

    about = prefilter.matter(source)
    # Heads are looked at block by block: of a large file most blocks are none.
    whole = bool(about & (prefilter.Matter.BACKWARD | prefilter.Matter.TRAINER)) or not about
    try:
        module = Module.read(_name(path), path, source, whole=whole)
        said = list(_said(module, project, about, settings))
        if module.broken:
            Module.read(_name(path), path, source, whole=True)
    except UnreadableError as error:
        return Report((unreadable(path, error),) if "GA900" in settings.selected else ())
    found: dict[tuple[str, Place], Finding] = {}
    for finding in said:
        if finding.code in settings.selected:
            key = (finding.code, finding.place)
            if key not in found or finding.severity.rank > found[key].severity.rank:
                found[key] = finding
    return Report(tuple(sorted(found.values(), key=lambda f: f.order)))


def _said(module: Module, project: Project, about: prefilter.Matter, settings: Settings) -> Iterator[Finding]:
    """What the rules say of a module's sites, heads and overrides; of one subject what precedence leaves."""
    from gafixer import precedence, rulebook

    rules = rulebook.load()
    if prefilter.Matter.BACKWARD in about:
        from gafixer.analysis import build

        for site in build.sites(module, project):
            yield from precedence.settle(f for rule in rules if rule.check is not None for f in rule.check(site))
    if about & (prefilter.Matter.HEAD | prefilter.Matter.TRAINER | prefilter.Matter.USER):
        from gafixer.analysis import heads, overrides, requirements, uses

        meant = requirements.target(project.requirement(module.path), settings.target_transformers)
        for head in heads.heads(module, project) if prefilter.Matter.HEAD in about else ():
            made = (f for rule in rules if rule.check_head is not None for f in rule.check_head(head, meant))
            yield from precedence.settle(made)
        for override in overrides.overrides(module, project) if prefilter.Matter.TRAINER in about else ():
            made = (
                f for rule in rules if rule.check_override is not None for f in rule.check_override(override, meant)
            )
            yield from precedence.settle(made)
        if prefilter.Matter.USER in about and (used := uses.uses(module, project)) is not None:
            for rule in rules:
                if rule.check_uses is not None:
                    yield from rule.check_uses(used, meant)


def trace(source: bytes, path: str, project: Project, row: int) -> str:
    """How the loss that goes backward at (or nearest above or below) a row was evaluated, term by term.

    Raises:
        UnreadableError: the file is no Python.
    """
    from gafixer.analysis import build
    from gafixer.analysis.source import Module
    from gafixer.report.trace import render

    module = Module.read(_name(path), path, source, whole=True)
    sites = build.sites(module, project)
    return render(min(sites, key=lambda s: abs(s.backward.spot.row - row)) if sites else None, module, row)


def unreadable(path: str, error: UnreadableError) -> Finding:
    """The finding for a file that is no Python."""
    here = Position(error.row, error.column)
    return Finding(
        "GA900",
        "unreadable",
        error.message,
        Severity.ERROR,
        Confidence.HIGH,
        Place(path, Span(here, dataclasses.replace(here, column=here.column + 1))),
        help="mend the file, or exclude it",
    )


def _name(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").strip(".")
