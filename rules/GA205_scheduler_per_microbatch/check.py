"""GA205: the schedule advances with microbatches while the optimizer steps once per window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.events import EventKind
from gafixer.analysis.windows import Shape
from gafixer.findings import Confidence, Severity
from gafixer.rulebook import Rule
from gafixer.wording import around, finding, steps_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Site
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """At the schedule's step. Frameworks that prepare the schedule advance it with the optimizer."""
    if not site.accumulates or site.window.shape not in {Shape.GUARDED, Shape.NESTED}:
        return
    for event in site.happening(EventKind.SCHEDULE):
        if event.value is not None or not site.within_window(event):
            continue
        yield finding(
            RULE,
            site,
            event.spot,
            "the schedule advances with every microbatch, the optimizer once in "
            f"{steps_name(site)}: warm-up and decay run that much too fast",
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
            help_="advance the schedule right after the optimizer's step",
            related=around(site),
        )
        return


RULE = Rule("GA205", "scheduler-per-microbatch", "The schedule advances with microbatches.", check)
