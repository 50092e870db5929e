"""How a loss was evaluated, for people who ask why something was found, or why it wasn't."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.spelling import text
from gafixer.analysis.values import Author

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gafixer.analysis.site import LossTerm, Site
    from gafixer.analysis.source import Module
    from gafixer.analysis.spot import Spot

__all__ = ["render"]


def render(site: Site | None, module: Module, row: int, label: Callable[[int], str]) -> str:
    """The site as lines of text; `label` names a row of the module."""
    if site is None:
        return f"{module.path}:{label(row)}: no loss goes backward in this file, as far as it could be followed"

    def where(spot: Spot | None) -> str:
        if spot is None:
            return ""
        shown = label(spot.row) if spot.path == module.path else spot.row
        return f"  at {spot.path}:{shown}:{spot.column + 1}"

    return "\n".join(_lines(site, where))


def _lines(site: Site, where: Callable[[Spot | None], str]) -> Iterator[str]:
    window = site.window
    yield f"backward ({site.framework.value}){where(site.backward.spot)}"
    yield f"  window: {window.shape.value}{where(window.step.spot if window.step else None)}"
    if window.loop is not None:
        over = text(window.loop.over) or "?"
        yield f"  microbatches: {over}{where(window.loop.spot)}"
    steps = text(site.steps) if site.steps is not None else "not visible"
    default = "" if site.steps_default is None else f" (default {site.steps_default:g})"
    yield f"  steps: {steps}{default}; accumulates: {'yes' if site.accumulates else 'no'}"
    if window.guard is not None:
        yield f"  guard{where(window.guard.spot)}; the loop's end steps: {'yes' if window.flushes else 'no'}"
    for number, term in enumerate(site.terms, 1):
        yield from _term(number, term, where)


def _term(number: int, term: LossTerm, where: Callable[[Spot | None], str]) -> Iterator[str]:
    atom = term.atom
    yield f"  term {number}: {term.scale.value} of {atom.name} ({atom.kind.value}){where(atom.spot)}"
    if atom.target is not None:
        yield f"    target: {text(atom.target)}"
    yield f"    counts {term.items.value}, their number varies: {term.variation.value}"
    for division in term.divisions:
        verb = "divided by" if division.power < 0 else "times"
        who = " by the framework" if division.author is Author.FRAMEWORK else ""
        yield f"    {verb} {division.name}: {division.divisor.value}{who}{where(division.spot)}"
    for evidence in term.evidence:
        yield f"    evidence: {evidence.message}{where(evidence.spot)}"
