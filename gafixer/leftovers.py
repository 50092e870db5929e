"""Questions about a window's edges that several rules ask."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gafixer.analysis import guards
from gafixer.analysis.events import Branch, Event, EventKind
from gafixer.analysis.spelling import text
from gafixer.analysis.windows import Shape
from gafixer.data.frameworks import STEPS_NAME

if TYPE_CHECKING:
    from gafixer.analysis.site import Site
    from gafixer.analysis.values import Value

_MICROBATCHES = re.compile(
    r"batch|loader|micro|data|chunk|split|accum|mbs\b|window|rollouts|samples|steps", re.IGNORECASE
)
_STEPS = re.compile(rf"{STEPS_NAME.pattern}|(^|\.)n?_?steps$", re.IGNORECASE)

__all__ = ["backward_after_loop", "guarded_backward", "leaves_over", "over_microbatches", "same_subject", "start_clear"]


def leaves_over(site: Site) -> bool:
    """Whether the loop over data that ends can leave microbatches that no step takes."""
    guard = site.window.guard
    if not site.accumulates or site.window.shape is not Shape.GUARDED or guard is None or site.window.flushes:
        return False
    index = guard.index
    return site.by_epoch and index is not None and index.restarts


def over_microbatches(site: Site) -> bool:
    """Whether the window's loop is over microbatches, and not over losses, schedules or tasks."""
    loop = site.window.loop
    return loop is not None and (
        _MICROBATCHES.search(text(loop.over)) is not None or _MICROBATCHES.search(text(loop.trips)) is not None
    )


def start_clear(site: Site) -> Event | None:
    """The call that clears gradients right before the loop over microbatches."""
    loop = site.window.loop
    outer = {f.id for f in site.window.outer}
    for event in site.happening(EventKind.CLEAR):
        around = {f.id for f in event.loops}
        if event.order < site.backward.order and around == outer and (loop is None or loop.id not in around):
            return event
    return None


def same_subject(subject: Value | None, site: Site) -> bool:
    """Whether a call is on the optimizer that ends the window, or on the model."""
    step = site.window.step
    if step is None or step.subject is None or subject is None:
        return True
    mine, theirs = (text(v).rsplit(".", 1)[-1].lower() for v in (subject, step.subject))
    return mine == theirs or "opt" not in mine or "opt" not in theirs


def guarded_backward(site: Site) -> bool:
    """Whether backward itself stands under the guard that counts microbatches."""
    own = [f for f in site.backward.frames if isinstance(f, Branch)]
    others = [
        e for e in site.happening(EventKind.BACKWARD) if e is not site.backward and e.loops == site.backward.loops
    ]
    if any(not _same_arm(e, site.backward) for e in others):
        return False
    guard = guards.read(own)
    if guard is None or guard.framework or guard.named or guard.only_last or guard.steps is None:
        return False
    index = guard.index
    named = _STEPS.search(text(guard.steps)) is not None
    return named and index is not None and bool(site.backward.loops) and index.loop == site.backward.loops[-1].id


def _same_arm(event: Event, backward: Event) -> bool:
    """Whether an event is under every condition that the backward call is under, or in the other arm of one."""
    mine = {f.spot for f in backward.frames if isinstance(f, Branch)}
    return mine <= {f.spot for f in event.frames if isinstance(f, Branch)}


def backward_after_loop(site: Site) -> bool:
    """Whether the loss was made in a loop over the window's microbatches that ended before backward."""
    around = {f.id for f in site.backward.loops}
    for term in site.terms:
        inner = [i for i in term.atom.loops if i not in around]
        if inner and term.atom.accumulated is None:
            for event in site.events:
                for loop in event.loops:
                    if (
                        loop.id == inner[0]
                        and loop.trips is not None
                        and site.window.declared.is_steps(text(loop.trips))
                    ):
                        return True
    return False
