"""GA101: a mean over each microbatch, divided by the number of microbatches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.site import Divisor, Scale, Variation
from gafixer.analysis.values import Author, Kind
from gafixer.analysis.windows import Shape
from gafixer.findings import Confidence, Severity
from gafixer.rulebook import Rule
from gafixer.wording import around, finding, loss_name, steps_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Division, LossTerm, Site
    from gafixer.findings import Finding

def check(site: Site) -> Iterator[Finding]:
    """One finding per site, at the division: all terms of a loss share it."""
    if not site.accumulates or site.window.shape is Shape.SINGLE:
        return
    found = [(term, division) for term in site.terms if (division := _division(term)) is not None]
    if not found:
        return
    term, division = max(found, key=lambda pair: _SEVERITY[pair[0].variation].rank)
    severity = _severity(site, term)
    place = site.backward.spot if division.author is Author.FRAMEWORK else division.spot
    yield finding(
        RULE,
        site,
        place,
        _message(site, term, division),
        severity=severity,
        confidence=_CONFIDENCE[term.variation],
        help_="sum the loss over each microbatch, and divide the gradients by the window's num_items before the step",
        related=around(site, term, division),
    )


_SEVERITY = {
    Variation.CERTAIN: Severity.ERROR,
    Variation.PROBABLE: Severity.WARNING,
    Variation.UNKNOWN: Severity.INFO,
    Variation.FIXED: Severity.INFO,
}
_CONFIDENCE = {
    Variation.CERTAIN: Confidence.HIGH,
    Variation.PROBABLE: Confidence.MEDIUM,
    Variation.UNKNOWN: Confidence.LOW,
    Variation.FIXED: Confidence.HIGH,
}


def _division(term: LossTerm) -> Division | None:
    """The division by the steps, if nothing undoes it and no count of the window takes its place."""
    below, above = term.divided_by(Divisor.STEPS), term.times(Divisor.STEPS)
    if len(below) <= len(above) or term.divided_by(Divisor.WINDOW_ITEMS):
        return None
    return below[0]


def _severity(site: Site, term: LossTerm) -> Severity:
    severity = _SEVERITY[term.variation]
    if term.scale is Scale.UNKNOWN:
        return Severity.INFO
    if term.scale is Scale.SUM and (term.atom.kind is not Kind.LOSS or not term.varies):
        return Severity.INFO
    if severity is Severity.ERROR and (site.window.shape is Shape.UNSEEN or term.scale is Scale.SUM):
        return Severity.WARNING
    return severity


def _message(site: Site, term: LossTerm, division: Division) -> str:
    who = f"{site.framework.value} divides" if division.author is Author.FRAMEWORK else "divided"
    by = steps_name(site) if division.author is Author.FRAMEWORK or division.value == site.steps else division.name
    items = loss_name(term)
    if term.scale is Scale.SUM:
        return f"a sum over {items} is {who} by {by}: the update grows with the {items} of a microbatch"
    if term.scale is Scale.UNKNOWN:
        return f"a loss that could not be followed is {who} by {by}: right only if every microbatch counts as many items"
    match term.variation:
        case Variation.CERTAIN:
            return f"each microbatch's mean is {who} by {by}, but the number of {items} varies: short microbatches weigh too much"
        case Variation.PROBABLE:
            return f"each microbatch's mean is {who} by {by}: wrong as soon as the number of {items} varies"
        case _:
            return f"each microbatch's mean is {who} by {by}: exact while all have as many {items}, so not for a short last batch"


RULE = Rule("GA101", "mean-over-steps", "A microbatch mean is divided by the number of steps, and counts vary.", check)
