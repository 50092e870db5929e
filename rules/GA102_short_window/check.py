"""GA102: the last, shorter window is divided by the full number of microbatches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.site import Divisor
from gafixer.analysis.values import MICROBATCHES
from gafixer.analysis.windows import Shape
from gafixer.findings import Confidence, Related, Role, Severity
from gafixer.rulebook import Rule
from gafixer.wording import around, finding, steps_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Site
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """At the division; loud where the code steps a short window on purpose, in a place of its own."""
    window = site.window
    if not site.accumulates or window.shape is not Shape.GUARDED or not window.flushes:
        return
    for term in site.terms:
        below = [d for d in term.divided_by(Divisor.STEPS) if d.value != MICROBATCHES]
        if not below or term.times(Divisor.STEPS) or term.divided_by(Divisor.WINDOW_ITEMS):
            continue
        on_purpose = window.flush is not None
        yield finding(
            RULE,
            site,
            below[0].spot,
            "the last window of the loop can be shorter, but is divided "
            f"by {steps_name(site)} too: its update is too small",
            severity=Severity.WARNING if on_purpose else Severity.INFO,
            confidence=Confidence.HIGH if on_purpose else Confidence.LOW,
            help_="divide by the number of microbatches that the window really has, or by its num_items",
            related=[*around(site, None, below[0]), *_flush(site)],
        )
        return


def _flush(site: Site) -> Iterator[Related]:
    if site.window.flush is not None:
        yield Related(Role.STEP, site.place(site.window.flush.spot), "what is left over steps here")


RULE = Rule("GA102", "short-window", "The last, shorter window is divided by the full number of steps.", check)
