"""GA501: the reported loss is on another scale than the gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.events import EventKind
from gafixer.analysis.site import Divisor
from gafixer.findings import Confidence, Severity
from gafixer.rulebook import Rule
from gafixer.wording import around, finding, steps_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import LossTerm, Site
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """At the report, where the figure is divided by the steps more often than the gradient."""
    if not site.accumulates:
        return
    expected = max((_net(t) for t in site.terms), default=0)
    own = {t.atom.spot for t in site.terms}
    for event in site.happening(EventKind.LOG):
        for term in site.reported(event):
            if term.atom.spot not in own or expected != 1:
                continue
            net = _net(term)
            summed = term.atom.accumulated is not None
            if net - summed < 1 or (summed and net < 2):
                continue
            yield finding(
                RULE,
                site,
                event.spot,
                f"the reported loss is divided by {steps_name(site)} once too often: "
                "it reads that much smaller than the loss that trains",
                severity=Severity.WARNING if summed else Severity.INFO,
                confidence=Confidence.MEDIUM,
                help_="report the loss before it is divided, or the window's sum of the divided ones",
                related=around(site, None, term.divided_by(Divisor.STEPS)[0]),
            )
            return


def _net(term: LossTerm) -> int:
    return len(term.divided_by(Divisor.STEPS)) - len(term.times(Divisor.STEPS))


RULE = Rule("GA501", "log-scale", "The reported loss is on another scale than the gradient.", check)
