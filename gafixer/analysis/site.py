"""A site: one loss that goes backward, with its window, its terms and what divides them. Rules see nothing else."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis.events import Branch, Call, Suspended
from gafixer.analysis.spelling import text
from gafixer.analysis.values import Author, Called, Kind, Sym
from gafixer.data.losses import BESIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gafixer.analysis.events import Event, EventKind, Framework
    from gafixer.analysis.spot import Spot
    from gafixer.analysis.values import Atom, Value
    from gafixer.analysis.windows import Window
    from gafixer.findings import Place

__all__ = ["Division", "Divisor", "Evidence", "Items", "LossTerm", "ModelLoss", "Scale", "Site", "Variation"]


#: Expressions longer than this are told by what they are.
_LONGEST_NAME = 48


class Divisor(enum.Enum):
    """What a loss, or its gradient, is divided by."""

    STEPS = "the number of microbatches of the window"
    WINDOW_ITEMS = "the items of the window"
    LOCAL_ITEMS = "the items of the microbatch"
    SAMPLES = "the samples of the microbatch"
    RANKS = "the number of ranks"
    CONSTANT = "a constant"
    OTHER = "something else"


class Scale(enum.Enum):
    """What a term is before anyone divides it by the window: over its own microbatch a mean, or a sum."""

    MEAN = "mean"
    SUM = "sum"
    UNKNOWN = "unknown"


class Items(enum.Enum):
    """What a term counts."""

    TOKENS = "tokens"
    SAMPLES = "samples"
    WEIGHTS = "class weights"
    MASKED = "masked items"
    ELEMENTS = "elements"
    UNKNOWN = "items"


class Variation(enum.Enum):
    """Whether the count of items varies among the microbatches of a window."""

    CERTAIN = "certain"
    PROBABLE = "probable"
    UNKNOWN = "unknown"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Something in the code that says whether counts vary."""

    spot: Spot
    message: str


@dataclass(frozen=True, slots=True)
class Division:
    """One divisor (or, with `power` 1, multiplier) of a term. `via` is where a precomputed factor was made."""

    divisor: Divisor
    value: Value
    power: int
    spot: Spot | None
    author: Author = Author.CODE
    via: Spot | None = None
    after_backward: bool = False

    @property
    def name(self) -> str:
        """How the code spells it, if that is short enough for a message."""
        match self.value:
            case Called(func=Sym(key="len"), args=(of,)):
                spelled = f"len({text(of)})"
            case _:
                spelled = text(self.value)
        return spelled if len(spelled) <= _LONGEST_NAME else self.divisor.value


@dataclass(frozen=True, slots=True)
class LossTerm:
    """One term of the loss."""

    atom: Atom
    scale: Scale
    items: Items
    variation: Variation
    divisions: tuple[Division, ...]
    evidence: tuple[Evidence, ...] = ()
    coefficient: float = 1.0

    @property
    def varies(self) -> bool:
        """Whether there is reason to think that counts vary."""
        return self.variation in {Variation.CERTAIN, Variation.PROBABLE}

    @property
    def beside(self) -> bool:
        """Whether this is a term beside the loss over the labels, as a router has one: each microbatch has one mean."""
        match self.atom.kind:
            case Kind.HEAD:
                return isinstance(self.atom.part, str) and BESIDE.search(self.atom.part) is not None
            case Kind.UNKNOWN:
                return BESIDE.search(self.atom.name.rpartition(".")[2]) is not None
            case _:
                return False

    def divided_by(self, divisor: Divisor) -> list[Division]:
        """The divisions by this kind of divisor."""
        return [d for d in self.divisions if d.divisor is divisor and d.power < 0]

    def times(self, divisor: Divisor) -> list[Division]:
        """The multiplications with this kind of number."""
        return [d for d in self.divisions if d.divisor is divisor and d.power > 0]


@dataclass(frozen=True, slots=True)
class ModelLoss:
    """The loss of a model of the project that a head's call may run.

    `files` (path and text) are those that the terms lie in.
    """

    name: str
    terms: tuple[LossTerm, ...]
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Site:
    """All that the rules know of one backward call.

    `events` are those of its run, in order. `steps` is G as the code spells it, `steps_default` its number where one
    is written, `steps_given` where a framework was told it. `ranks` says where the project shows several ranks,
    `drop_last` where a loader drops its short last batch. `place` turns a spot into a place, `source` into its text;
    `reported` gives the terms of a figure that is logged. `modules` are the files that its run looked into, the
    scanned one first: path and text. `models` looks for what a term's head may be among the classes that the scanned
    file names (away 0), or that the files around it name (1). `others` are the terms that the loss has on other ways
    through the code, where these are other losses than `terms`.
    """

    backward: Event
    window: Window
    framework: Framework
    terms: tuple[LossTerm, ...]
    events: tuple[Event, ...]
    path: str
    place: Callable[[Spot], Place]
    source: Callable[[Spot], str]
    reported: Callable[[Event], tuple[LossTerm, ...]]
    models: Callable[[LossTerm, int], Iterator[ModelLoss]]
    steps: Value | None = None
    steps_default: float | None = None
    steps_given: Evidence | None = None
    accumulates: bool = True
    by_epoch: bool = False
    ranks: Evidence | None = None
    drop_last: Evidence | None = None
    modules: tuple[tuple[str, str], ...] = ()
    others: tuple[tuple[LossTerm, ...], ...] = ()

    def own(self, spot: Spot | None) -> Spot:
        """The spot where a finding about `spot` belongs: itself, or the call in the scanned file that leads to it."""
        if spot is not None and spot.path == self.path:
            return spot
        if self.backward.spot.path == self.path:
            return self.backward.spot
        inside = [f.spot for f in self.backward.frames if isinstance(f, Call) and f.spot.path == self.path]
        return inside[-1] if inside else self.backward.spot

    def within_window(self, event: Event) -> bool:
        """Whether an event happens for every microbatch: in the loop over them, under no condition of its own."""
        loop = self.window.loop
        if loop is None or loop.id not in {f.id for f in event.loops}:
            return False
        return not self.branches(event)

    def branches(self, event: Event) -> list[Branch]:
        """The conditions of an event that are not conditions of the backward call."""
        around = self.backward.branches
        return [f for f in event.frames if isinstance(f, Branch) and (f.spot, f.holds) not in around]

    def happening(self, kind: EventKind) -> list[Event]:
        """The events of a kind, in the ordinary course of training."""
        return [e for e in self.events if e.kind is kind and not any(isinstance(f, Suspended) for f in e.frames)]
