"""GA104: means of several microbatches are added up and divided by nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.events import Framework
from gafixer.analysis.site import Divisor, Scale
from gafixer.analysis.values import Kind
from gafixer.analysis.windows import Shape
from gafixer.findings import Confidence, Severity
from gafixer.leftovers import over_microbatches
from gafixer.rulebook import Rule
from gafixer.wording import around, finding, steps_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import LossTerm, Site
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """At backward: there is no division to point at."""
    if not _adds_up(site):
        return
    means = [t for t in site.terms if t.scale is Scale.MEAN and t.atom.kind in {Kind.LOSS, Kind.HEAD, Kind.REDUCED}]
    if not means or any(_divided(t) for t in site.terms) or any(t.atom.accumulated is not None for t in means):
        return
    yield finding(
        RULE,
        site,
        site.backward.spot,
        f"the means of {_many(site)} microbatches are added up and divided by nothing: "
        "gradients and what clips them grow with their number",
        severity=Severity.ERROR if site.window.steps is not None else Severity.WARNING,
        confidence=Confidence.HIGH if site.window.shape is Shape.GUARDED else Confidence.MEDIUM,
        help_="sum the loss over each microbatch and divide the gradients by the window's num_items before the step",
        related=around(site, means[0]),
    )


def _adds_up(site: Site) -> bool:
    if not site.accumulates or site.framework not in {Framework.TORCH, Framework.FABRIC, Framework.ACCELERATE}:
        return False
    match site.window.shape:
        case Shape.GUARDED:
            return site.steps is not None
        case Shape.NESTED:
            return over_microbatches(site)
        case _:
            return False


def _divided(term: LossTerm) -> bool:
    """By the steps, by the window's count, or by something that may be either."""
    kinds = (Divisor.STEPS, Divisor.WINDOW_ITEMS, Divisor.OTHER, Divisor.SAMPLES, Divisor.CONSTANT)
    return any(term.divided_by(kind) for kind in kinds) or any(
        d.via is not None or d.power > 0 for d in term.divisions if d.divisor is Divisor.OTHER
    )


def _many(site: Site) -> str:
    return steps_name(site) if site.window.steps is not None else "several"


RULE = Rule("GA104", "not-divided", "Microbatch losses are added up and divided by nothing.", check)
