"""GA201: gradients that one epoch leaves over are in the next epoch's first window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.findings import Confidence, Severity
from gafixer.leftovers import leaves_over, start_clear
from gafixer.rulebook import Rule
from gafixer.wording import around, finding, steps_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Site
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """At the guard, where the loop's index starts anew with each epoch and nothing clears before it."""
    if not leaves_over(site) or start_clear(site) is not None:
        return
    guard = site.window.guard
    assert guard is not None
    seen = bool(site.window.outer) and site.drop_last is None
    yield finding(
        RULE,
        site,
        guard.spot,
        f"unless the number of microbatches is a multiple of {steps_name(site)}, "
        "an epoch's left-over gradients join the next epoch's first window",
        severity=Severity.WARNING if seen else Severity.INFO,
        confidence=Confidence.MEDIUM,
        help_="step the left-over window at the loop's end, with its own count",
        related=around(site),
    )


RULE = Rule("GA201", "window-leaks", "Left-over gradients of one epoch leak into the next epoch's first window.", check)
