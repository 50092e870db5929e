"""GA106: a term with a denominator of its own rides on the token scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.site import Divisor, Scale
from gafixer.findings import Confidence, Severity
from gafixer.rulebook import Rule
from gafixer.wording import around, finding, loss_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Site
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """At the division, where one term is a sum of items and another is not."""
    if not site.accumulates or len(site.terms) < 2:
        return
    sums = [t for t in site.terms if t.scale is Scale.SUM and t.divided_by(Divisor.WINDOW_ITEMS)]
    others = [t for t in site.terms if t.scale is not Scale.SUM]
    if not sums or not others:
        return
    other = others[0]
    below = other.divided_by(Divisor.WINDOW_ITEMS)
    if not below and other.divided_by(Divisor.STEPS):
        return
    name = other.atom.name
    said = (
        f"{name} is no sum over {loss_name(sums[0])}, but is divided by "
        "their number: its weight shrinks as windows grow"
        if below
        else f"{name} is added for every microbatch and divided by nothing: "
        "its weight grows with the number of microbatches"
    )
    division = below[0] if below else sums[0].divided_by(Divisor.WINDOW_ITEMS)[0]
    yield finding(
        RULE,
        site,
        division.spot,
        said,
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        help_="give each term its own denominator: the items of the window for a sum, "
        "the number of microbatches for a mean",
        related=around(site, other, division),
    )


RULE = Rule("GA106", "aux-scale", "A term with another denominator rides on the token scale.", check)
