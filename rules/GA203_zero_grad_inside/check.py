"""GA203: gradients are cleared inside the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.events import EventKind, Framework
from gafixer.analysis.windows import Shape
from gafixer.findings import Related, Role, Severity
from gafixer.leftovers import over_microbatches, same_subject
from gafixer.rulebook import Rule
from gafixer.wording import around, finding, steps_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.events import Event
    from gafixer.analysis.site import Site
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """At the call that clears."""
    if not site.accumulates or site.framework is Framework.DEEPSPEED or site.window.shape in _NO_WINDOW:
        return
    if site.window.shape is Shape.NESTED and not over_microbatches(site):
        return
    for event in site.happening(EventKind.CLEAR):
        if not _inside(site, event) or not same_subject(event.subject, site) or _ends_probe(site, event):
            continue
        yield finding(
            RULE,
            site,
            event.spot,
            "gradients are cleared for every microbatch: "
            f"a step over {steps_name(site)} microbatches sees the last one only",
            severity=Severity.ERROR,
            help_="clear once per window, right after the step",
            related=[*around(site), *_again(site)],
        )
        return


_NO_WINDOW = frozenset({Shape.SINGLE, Shape.UNSEEN})


def _ends_probe(site: Site, event: Event) -> bool:
    """Whether the gradients that are cleared were made for another purpose than this window's step."""
    backwards = [e for e in site.happening(EventKind.BACKWARD) if e.loops == site.backward.loops]
    return any(e.order < event.order for e in backwards) and any(e.order > event.order for e in backwards)


def _inside(site: Site, event: Event) -> bool:
    if not site.within_window(event):
        return False
    if site.window.shape is not Shape.FRAMEWORK:
        return site.window.step is None or event.order < site.window.step.order or site.window.shape is Shape.GUARDED
    # A prepared optimizer clears only where it steps, so after the step is right and before backward is not.
    return site.window.guard is None and event.order < site.backward.order


def _again(site: Site) -> Iterator[Related]:
    if site.window.loop is not None:
        yield Related(Role.LOOP, site.place(site.window.loop.spot), "for every microbatch")


RULE = Rule("GA203", "zero-grad-inside", "Gradients are cleared inside the window.", check)
