"""GA105: a mean is divided again by something that is not the window's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.site import Divisor, Scale
from gafixer.analysis.values import Author, Kind, Reduction
from gafixer.findings import Severity
from gafixer.rulebook import Rule
from gafixer.wording import around, finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Division, LossTerm, Site
    from gafixer.findings import Finding

_WRONG = {
    Divisor.SAMPLES: "the size of its own microbatch",
    Divisor.LOCAL_ITEMS: "the items of its own microbatch",
    Divisor.RANKS: "the number of ranks, which are averaged anyway",
}


def check(site: Site) -> Iterator[Finding]:
    """At the division that does not belong."""
    if not site.accumulates:
        return
    for term in site.terms:
        if term.atom.reduction is not Reduction.MEAN or term.atom.kind not in {Kind.LOSS, Kind.HEAD}:
            continue
        for division in term.divisions:
            if division.divisor not in _WRONG or division.power > 0 or division.author is not Author.CODE:
                continue
            if term.times(division.divisor) or (division.divisor is Divisor.RANKS and site.ranks is None):
                continue
            if term.scale is not Scale.MEAN or _is_mean_of_parts(site, term, division):
                continue
            yield finding(
                RULE,
                site,
                division.spot,
                f"a mean is divided by {division.name}, {_WRONG[division.divisor]}: "
                "the gradient's scale follows no count of the window",
                severity=Severity.WARNING,
                help_="sum the loss over each microbatch and divide by the window's num_items only",
                related=around(site, term, division),
            )
            return


def _is_mean_of_parts(site: Site, term: LossTerm, division: Division) -> bool:
    """Whether means over parts of a microbatch were added up: over how many there are, that is a mean again."""
    loop, added = site.window.loop, term.atom.accumulated
    return division.divisor is Divisor.SAMPLES and added is not None and (loop is None or added != loop.id)


RULE = Rule("GA105", "wrong-divisor", "The loss is divided by something that is not the window's.", check)
