"""What running training code does, in order: a loss goes backward, an optimizer steps, gradients are cleared."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from gafixer.analysis.values import External

if TYPE_CHECKING:
    from gafixer.analysis.spot import Spot
    from gafixer.analysis.values import Value

__all__ = [
    "AUTOMATIC",
    "Branch",
    "Call",
    "Event",
    "EventKind",
    "Frame",
    "Framework",
    "Loop",
    "LoopKind",
    "Suspended",
    "Within",
]


#: The subject of a backward call that Lightning makes by itself.
AUTOMATIC = External("lightning.pytorch.Trainer")


class EventKind(enum.Enum):
    """What happens to gradients, or is reported of the loss."""

    BACKWARD = "backward"
    STEP = "step"
    CLEAR = "clear"
    CLIP = "clip"
    UNSCALE = "unscale"
    SCHEDULE = "schedule"
    RESCALE = "rescale"
    LOG = "log"


class Framework(enum.Enum):
    """Through what a loss goes backward."""

    TORCH = "PyTorch"
    ACCELERATE = "Accelerate"
    FABRIC = "Fabric"
    DEEPSPEED = "DeepSpeed"
    LIGHTNING = "Lightning"
    IGNITE = "ignite"
    COMPOSER = "Composer"
    TRAINER = "Trainer"


class LoopKind(enum.Enum):
    """How a loop counts."""

    FOR = "for"
    RANGE = "range"
    WHILE = "while"
    IMPLICIT = "implicit"


@dataclass(frozen=True, slots=True)
class Loop:
    """Inside a loop. `over` is what it draws from, `trips` how often it runs where that is a value of its own."""

    id: int
    kind: LoopKind
    spot: Spot
    over: Value | None = None
    trips: Value | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """Inside a branch that is taken when `test` is `holds`."""

    test: Value
    holds: bool
    spot: Spot


@dataclass(frozen=True, slots=True)
class Within:
    """Inside a ``with`` block."""

    context: Value
    spot: Spot


@dataclass(frozen=True, slots=True)
class Call:
    """Inside a function called at `spot`."""

    name: str
    spot: Spot


@dataclass(frozen=True, slots=True)
class Suspended:
    """Where gradients are off, or in a handler of an exception: nothing here trains in the ordinary course."""

    reason: str


Frame: TypeAlias = Loop | Branch | Within | Call | Suspended


@dataclass(frozen=True, slots=True)
class Event:
    """One happening.

    `value` is the loss, the count or the figure, of a step the gradient scaler that takes it; `subject` is the
    optimizer, model or engine. `undivided` says of a backward that its framework was told not to divide.
    """

    kind: EventKind
    spot: Spot
    frames: tuple[Frame, ...]
    order: int
    value: Value | None = None
    subject: Value | None = None
    framework: Framework = Framework.TORCH
    undivided: bool = False

    @property
    def branches(self) -> frozenset[tuple[Spot, bool]]:
        """Which arms of which branches it is in: the spot of each test, and how the test came out."""
        return frozenset((f.spot, f.holds) for f in self.frames if isinstance(f, Branch))

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops around it, outermost first."""
        return tuple(f for f in self.frames if isinstance(f, Loop))
