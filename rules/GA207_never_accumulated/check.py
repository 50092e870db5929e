"""GA207: the loss is divided by the steps, but every microbatch steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.events import EventKind
from gafixer.analysis.site import Divisor
from gafixer.analysis.values import Const
from gafixer.analysis.windows import Shape
from gafixer.findings import Confidence, Severity
from gafixer.leftovers import guarded_backward
from gafixer.rulebook import Rule
from gafixer.wording import around, finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Site
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """At the division."""
    window = site.window
    if window.shape is not Shape.SINGLE or guarded_backward(site) or site.steps_default == 1:
        return
    if window.step is None or site.branches(window.step):
        return
    for term in site.terms:
        below = [d for d in term.divided_by(Divisor.STEPS) if not isinstance(d.value, Const)]
        if len(below) <= len(term.times(Divisor.STEPS)) or term.atom.accumulated is not None:
            continue
        if len(site.happening(EventKind.BACKWARD)) > 1 and window.loop is None:
            continue
        yield finding(
            RULE,
            site,
            below[0].spot,
            f"divided by {below[0].name}, but every microbatch steps: "
            "nothing accumulates and updates are that much too small",
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
            help_="step once per window, or drop the division",
            related=around(site, term, below[0]),
        )
        return


RULE = Rule("GA207", "never-accumulated", "The loss is divided by the steps, but every microbatch steps.", check)
