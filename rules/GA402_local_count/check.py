"""GA402: a count of one rank under gradients that ranks average."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.site import Divisor, Items, Scale, Variation
from gafixer.analysis.values import Atom, Author, Kind, Poly, Reduction
from gafixer.findings import Confidence, Related, Role, Severity
from gafixer.rulebook import Rule
from gafixer.wording import around, finding, loss_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Division, LossTerm, Site
    from gafixer.analysis.values import Value
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """At the division by the count, where the project shows ranks that average their gradients."""
    if site.ranks is None:
        return
    for term in site.terms:
        if term.scale is Scale.UNKNOWN or term.atom.reduction is not Reduction.SUM:
            continue
        for division in _counts(site, term):
            if _is_everywhere(division.value) or term.times(Divisor.RANKS):
                continue
            yield finding(
                RULE,
                site,
                division.spot,
                f"the sum is divided by this rank's {loss_name(term)}, and ranks average "
                "their gradients: an item's weight depends on its rank",
                severity=Severity.ERROR if term.variation is Variation.CERTAIN else Severity.WARNING,
                confidence=Confidence.MEDIUM,
                help_="sum the count over all ranks, and multiply the loss by their number",
                related=[*around(site, term, division), evidence(site)],
            )
            return


def _counts(site: Site, term: LossTerm) -> list[Division]:
    """Divisions by items: of the window, or (without accumulation) of the batch."""
    kinds = (Divisor.WINDOW_ITEMS,) if site.accumulates else (Divisor.WINDOW_ITEMS, Divisor.LOCAL_ITEMS)
    found = [d for kind in kinds for d in term.divided_by(kind) if d.author is Author.CODE]
    return [
        d for d in found if term.items in {Items.TOKENS, Items.MASKED, Items.WEIGHTS} or term.atom.kind is Kind.LOSS
    ]


def _is_everywhere(value: Value) -> bool:
    match value:
        case Atom(everywhere=everywhere):
            return everywhere
        case Poly(terms=terms):
            return any(t.atom is not None and t.atom.everywhere for t in terms)
        case _:
            return True  # a figure from elsewhere may be a global one


def evidence(site: Site) -> Related:
    """Where the project shows ranks."""
    assert site.ranks is not None
    return Related(Role.EVIDENCE, site.place(site.ranks.spot), site.ranks.message)


RULE = Rule("GA402", "local-count", "A count of one rank stands under gradients that ranks average.", check)
