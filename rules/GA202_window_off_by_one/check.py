"""GA202: the guard makes the first window too short or too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.windows import Shape
from gafixer.findings import Confidence, Severity
from gafixer.rulebook import Rule
from gafixer.wording import around, finding, steps_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Site
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """At the guard, where the count and the remainder are both visible."""
    guard = site.window.guard
    if site.window.shape is not Shape.GUARDED or guard is None or not guard.first:
        return
    index = guard.index
    if index is None or not site.accumulates:
        return
    length = f"{guard.first} microbatch{'es' if guard.first > 1 else ''}" if guard.first > 0 else "too few microbatches"
    each = "each epoch" if index.restarts else "training"
    yield finding(
        RULE,
        site,
        guard.spot,
        f"counted from {index.offset}, the first window of {each} has {length} instead of {steps_name(site)}",
        severity=Severity.WARNING if index.restarts else Severity.INFO,
        confidence=Confidence.HIGH,
        help_="test the number of microbatches seen so far: (i + 1) % steps == 0",
        related=around(site),
    )


RULE = Rule("GA202", "window-off-by-one", "The guard makes the first window too short or too long.", check)
