"""GA206: the window that an epoch leaves over is never stepped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.findings import Confidence, Related, Role, Severity
from gafixer.leftovers import leaves_over, start_clear
from gafixer.rulebook import Rule
from gafixer.wording import around, finding, steps_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Site
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """At the guard, where gradients are cleared before each epoch."""
    clear = start_clear(site)
    if not leaves_over(site) or clear is None:
        return
    guard = site.window.guard
    assert guard is not None
    yield finding(
        RULE,
        site,
        guard.spot,
        f"unless the number of microbatches is a multiple of {steps_name(site)}, "
        "the last ones of each epoch never reach a step",
        severity=Severity.INFO if site.drop_last is not None else Severity.WARNING,
        confidence=Confidence.MEDIUM,
        help_="step the left-over window at the loop's end, with its own count",
        related=[*around(site), Related(Role.STEP, site.place(clear.spot), "its gradients are cleared here")],
    )


RULE = Rule("GA206", "window-dropped", "The left-over window of an epoch is never stepped.", check)
