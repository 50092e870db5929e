"""GA204: gradients are clipped per microbatch, or before they are unscaled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.events import EventKind, Framework
from gafixer.analysis.windows import Shape
from gafixer.findings import Severity
from gafixer.rulebook import Rule
from gafixer.wording import around, finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.events import Event
    from gafixer.analysis.site import Site
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """At the clip."""
    window = site.window
    if not site.accumulates or window.shape in {Shape.SINGLE, Shape.UNSEEN}:
        return
    for event in site.happening(EventKind.CLIP):
        if event.order < site.backward.order:
            continue
        per_microbatch = site.within_window(event) and _between(site, event)
        scaled = _scaled(site, event)
        if not per_microbatch and not scaled:
            continue
        said = (
            "gradients are clipped after every microbatch: clip(clip(g1) + g2) is not clip(g1 + g2)"
            if per_microbatch
            else "gradients are clipped before unscale_: the threshold is compared with gradients times the loss scale"
        )
        yield finding(
            RULE,
            site,
            event.spot,
            said,
            severity=Severity.ERROR if scaled or site.framework is Framework.TORCH else Severity.WARNING,
            help_="clip once per window: after unscale_, right before the step",
            related=around(site),
        )
        return


def _between(site: Site, event: Event) -> bool:
    """Whether the clip belongs to the microbatch and not to the step of a framework that steps by itself."""
    step = site.window.step
    if site.window.shape is Shape.FRAMEWORK:
        return site.framework is Framework.ACCELERATE and step is not None
    return True


def _scaled(site: Site, event: Event) -> bool:
    """Whether a scaler takes the step and nothing unscaled before the clip."""
    step = site.window.step
    if step is None or step.value is None or step.order < event.order or event.order < site.backward.order:
        return False
    return not any(site.backward.order < e.order < event.order for e in site.happening(EventKind.UNSCALE))


RULE = Rule("GA204", "clip-order", "Gradients are clipped per microbatch, or before unscale_.", check)
