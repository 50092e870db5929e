"""GA103: divided by the steps by hand, and again by hand or by the framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.site import Divisor
from gafixer.analysis.values import Author
from gafixer.findings import Related, Role, Severity
from gafixer.rulebook import Rule
from gafixer.wording import around, finding, steps_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Division, Site
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """At the division that the code can drop: its own."""
    for term in site.terms:
        below = term.divided_by(Divisor.STEPS)
        if len(below) - len(term.times(Divisor.STEPS)) < 2 or term.divided_by(Divisor.WINDOW_ITEMS):
            continue
        own = [d for d in below if d.author is Author.CODE]
        first, *rest = own or below
        who = f"{site.framework.value}'s backward" if len(own) < len(below) else "the code"
        yield finding(
            RULE,
            site,
            first.spot,
            f"divided by {first.name}, and again by {who}: the gradient is {steps_name(site)} times too small",
            severity=Severity.ERROR,
            help_="divide once: drop this division",
            related=[*around(site, term, first), *(_again(site, d) for d in rest if d.spot is not None)],
        )
        return


def _again(site: Site, division: Division) -> Related:
    assert division.spot is not None
    return Related(Role.DIVIDE, site.place(division.spot), f"divided again by {division.name}")


RULE = Rule("GA103", "divided-twice", "The loss is divided by the steps by hand and again by the framework.", check)
