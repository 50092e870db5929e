"""Which microbatches one optimizer step takes: the window of a backward call, from the events of its run."""

from __future__ import annotations

import dataclasses
import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis import guards
from gafixer.analysis.events import AUTOMATIC, Branch, Event, EventKind, Framework, Loop, Suspended, Within
from gafixer.analysis.spelling import text
from gafixer.analysis.values import Const, Index
from gafixer.declared import NOTHING

if TYPE_CHECKING:
    from gafixer.analysis.guards import Guard
    from gafixer.analysis.spot import Spot
    from gafixer.analysis.values import Value
    from gafixer.declared import Declared

__all__ = ["Shape", "Window", "find"]


class Shape(enum.Enum):
    """How the code groups microbatches into windows."""

    GUARDED = "the step is guarded by a count of microbatches"
    NESTED = "the step comes after a loop over the window's microbatches"
    FRAMEWORK = "the framework decides when to step"
    SINGLE = "every microbatch steps"
    UNSEEN = "no step is in sight"


@dataclass(frozen=True, slots=True)
class Window:
    """The window of one backward call.

    `loop` is the loop over its microbatches, `outer` the loops around that. `steps` is G as the code spells it.
    `step` is the step that ends it, `flush` the step for what the loop leaves over. `declared` says what the project
    calls the number of microbatches.
    """

    shape: Shape
    backward: Event
    loop: Loop | None = None
    outer: tuple[Loop, ...] = ()
    steps: Value | None = None
    guard: Guard | None = None
    step: Event | None = None
    flush: Event | None = None
    declared: Declared = NOTHING

    @property
    def flushes(self) -> bool:
        """Whether the microbatches that the loop leaves over are stepped."""
        return self.flush is not None or (self.guard is not None and self.guard.flush)


def find(backward: Event, events: list[Event]) -> Window:
    """The window that a backward call belongs to."""
    split = _split_arms(backward, events)
    steps = [e for e in events if e.kind is EventKind.STEP and trains(e) and not _excluded(e, backward, split)]
    if _accumulates(backward) or any(_accumulates(e) and _shares(e, backward) for e in steps):
        step = next((e for e in steps if _depth(e, backward) >= len(backward.loops)), steps[0] if steps else None)
        loop, outer = _split(backward, len(backward.loops) - 1)
        return Window(Shape.FRAMEWORK, backward, loop, outer, step=step)
    guarded = [(e, g) for e in steps if (g := guards.read(_own_branches(e, backward, split))) is not None]
    if guarded and _takes_turns(backward, events, steps, [e for e, _ in guarded]):
        return _unguarded(backward, steps, [e for e, _ in guarded])
    for event, guard in sorted(guarded, key=lambda pair: pair[1].named or pair[1].only_last):
        if not guard.only_last and not (_is_once(guard) and _ends_windows(backward, steps, guarded)):
            return _guarded(backward, event, guard, steps)
    return _unguarded(backward, steps, [e for e, _ in guarded])


def _takes_turns(backward: Event, events: list[Event], steps: list[Event], guarded: list[Event]) -> bool:
    """Whether a loss has an optimizer to itself, which clears, goes backward and steps before the next loss does.

    The steps under a condition are then those of other losses: of discriminators that train every so many batches.
    """
    later = (e.order for e in events if e.kind is EventKind.BACKWARD and e.order > backward.order and trains(e))
    until = next(later, math.inf)
    own = next((e for e in steps if e.order > backward.order and e not in guarded and _beside(e, backward)), None)
    return (
        own is not None
        and own.order < until
        and not any(e.subject == own.subject or backward.order < e.order < until for e in guarded)
        and any(
            e.kind is EventKind.CLEAR and e.subject == own.subject and e.order < backward.order and _beside(e, backward)
            for e in events
        )
    )


def _beside(event: Event, backward: Event) -> bool:
    """Whether an event happens whenever the backward call does."""
    return event.loops == backward.loops and event.branches <= backward.branches


def _is_once(guard: Guard) -> bool:
    """Whether a condition may hold once in a run: a counter equals a number, and not a multiple of one."""
    return isinstance(guard.counter, Index) and isinstance(guard.steps, Const)


def _ends_windows(backward: Event, steps: list[Event], guarded: list[tuple[Event, Guard]]) -> bool:
    """Whether a step under no such condition comes after a loop around the backward call that has its own length."""
    free = [e for e in steps if e.order > backward.order and all(e is not other for other, _ in guarded)]
    loops = backward.loops
    return any(_depth(e, backward) < len(loops) and loops[_depth(e, backward)].trips is not None for e in free)


def _guarded(backward: Event, step: Event, guard: Guard, steps: list[Event]) -> Window:
    index = guard.index
    level = next((i for i, loop in enumerate(backward.loops) if index is not None and loop.id == index.loop), None)
    if level is None:
        level = min(_depth(step, backward), len(backward.loops)) - 1
    loop, outer = _split(backward, level)
    if guard.framework:
        return Window(Shape.FRAMEWORK, backward, loop, outer, guard=guard, step=step)
    flush = next(
        (
            e
            for e in steps
            if e is not step
            and e.order > backward.order
            and (_comes_after(e, backward, level) or (_only_last(e, backward) and e.spot != step.spot))
        ),
        None,
    )
    return Window(Shape.GUARDED, backward, loop, outer, guard.steps, guard, step, flush)


def _comes_after(event: Event, backward: Event, level: int) -> bool:
    """Whether an event is outside the loop over microbatches, and in no other loop that the backward call isn't in."""
    depth = _depth(event, backward)
    return depth <= level and depth == len(event.loops)


def _only_last(event: Event, backward: Event) -> bool:
    guard = guards.read(_own_branches(event, backward))
    return guard is not None and guard.only_last


def _unguarded(backward: Event, steps: list[Event], last_only: list[Event]) -> Window:
    loops = backward.loops
    after = [e for e in steps if e.order > backward.order]
    here = [e for e in after if _depth(e, backward) == len(loops) and e not in last_only]
    if here:
        loop, outer = _split(backward, len(loops) - 1)
        return Window(Shape.SINGLE, backward, loop, outer, loop.trips if loop is not None else None, step=here[0])
    outside = [e for e in (*after, *last_only) if _depth(e, backward) < len(loops) or e in last_only]
    if outside:
        step = outside[0]
        level = min(_depth(step, backward), len(loops) - 1)
        loop, outer = _split(backward, level)
        # Loops inside the window's loop over parts of one microbatch do not count it.
        return Window(Shape.NESTED, backward, loop, outer, loop.trips if loop is not None else None, step=step)
    if steps and _depth(steps[0], backward) == len(loops):
        loop, outer = _split(backward, len(loops) - 1)
        return Window(Shape.SINGLE, backward, loop, outer, step=steps[0])
    loop, outer = _split(backward, len(loops) - 1)
    return Window(Shape.UNSEEN, backward, loop, outer)


def _split(backward: Event, level: int) -> tuple[Loop | None, tuple[Loop, ...]]:
    loops = backward.loops
    if 0 <= level < len(loops):
        return loops[level], loops[:level]
    return None, loops


def _depth(event: Event, backward: Event) -> int:
    """How many of the backward call's loops are around an event too."""
    shared = 0
    for mine, theirs in zip(event.loops, backward.loops, strict=False):
        if mine.id != theirs.id:
            break
        shared += 1
    return shared


def _split_arms(backward: Event, events: list[Event]) -> frozenset[Spot]:
    """Conditions that count microbatches with a backward call in each arm, but no step: both are in one window."""
    others = _arms([e for e in events if e.kind is EventKind.BACKWARD and e.loops == backward.loops])
    steps = _arms([e for e in events if e.kind is EventKind.STEP])
    return frozenset(
        f.spot
        for f in backward.frames
        if isinstance(f, Branch)
        and (f.spot, not f.holds) in others
        and not {(f.spot, True), (f.spot, False)} <= steps
        and any(guards.read([dataclasses.replace(f, holds=holds)]) is not None for holds in (True, False))
    )


def _arms(events: list[Event]) -> set[tuple[Spot, bool]]:
    return {(f.spot, f.holds) for e in events for f in e.frames if isinstance(f, Branch)}


def _own_branches(event: Event, backward: Event, split: frozenset[Spot] = frozenset()) -> list[Branch]:
    """Branches around an event that are not around the backward call."""
    around = {(f.spot, f.holds) for f in backward.frames if isinstance(f, Branch) and f.spot not in split}
    return [f for f in event.frames if isinstance(f, Branch) and (f.spot, f.holds) not in around]


def _excluded(event: Event, backward: Event, split: frozenset[Spot]) -> bool:
    """Whether an event is in the other arm of a branch that the backward call is in, in the same iteration."""
    arms = {f.spot: f.holds for f in backward.frames if isinstance(f, Branch) and f.spot not in split}
    return any(isinstance(f, Branch) and arms.get(f.spot, f.holds) != f.holds for f in event.frames)


def trains(event: Event) -> bool:
    """Whether an event happens in the ordinary course of training."""
    return not any(isinstance(f, Suspended) for f in event.frames)


def _accumulates(event: Event) -> bool:
    """Whether an event is inside ``accelerator.accumulate(...)``."""
    return any(isinstance(f, Within) and ".accumulate(" in text(f.context) for f in event.frames) or (
        event.kind is EventKind.BACKWARD and (event.framework in _STEPS_ITSELF or event.subject == AUTOMATIC)
    )


#: Frameworks that decide when to step, whoever asks for it.
_STEPS_ITSELF = frozenset({Framework.DEEPSPEED, Framework.IGNITE, Framework.COMPOSER, Framework.TRAINER})


def _shares(event: Event, backward: Event) -> bool:
    return _depth(event, backward) == len(backward.loops)
