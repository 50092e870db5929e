"""What a value inside a head or a `compute_loss` carries: labels, the count, losses, and what may be called."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gafixer.data.transformers import COUNT, LABELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gafixer.analysis.spot import Spot
    from gafixer.analysis.values import Value

__all__ = [
    "NOTHING",
    "Flow",
    "Honours",
    "LossCall",
    "Maker",
    "closed",
    "counted",
    "entry_of",
    "join",
    "through",
    "with_entry",
]


class Honours(enum.Enum):
    """What a loss does with the window's count."""

    YES = "is divided by the count"
    PARTLY = "is divided by the count for some problem types only"
    NO = "is a mean of its own"
    OPEN = "is divided by nothing"


class Maker(enum.Enum):
    """What makes a loss."""

    CRITERION = "a loss of PyTorch"
    FUNCTION = "a loss function"
    MODEL = "a model"
    LIBRARY = "the library's default loss"
    REDUCTION = "a mean by hand"
    SUPER = "the base class"
    UNSEEN = "something that was not followed"


@dataclass(frozen=True, slots=True)
class LossCall:
    """One place where a loss is made from labels, and whether the count reaches it.

    `via` is the call in the function that was traced that leads there, where it is made in another one. `mean` is where
    a loss per item, or a sum, is made a mean.
    """

    spot: Spot
    name: str
    honours: Honours
    maker: Maker
    via: Spot | None = None
    mean: Spot | None = None

    @property
    def order(self) -> tuple[object, ...]:
        """Sort key: no two calls have the same one."""
        further = tuple((spot is not None, spot or self.spot) for spot in (self.mean, self.via))
        return (self.spot, self.name, *further, self.honours.value, self.maker.value)


@dataclass(frozen=True, slots=True)
class Flow:
    """What a value carries.

    `labels` and `count` say that it was made from the labels, or is (or holds) the window's count. `value` is what it
    is, where that is known: a constant, a function, a class, an object. `parts` are the elements of a tuple, `fields`
    the entries of a dict or of a model's output.
    """

    labels: bool = False
    count: bool = False
    losses: frozenset[LossCall] = frozenset()
    value: Value | None = None
    parts: tuple[Flow, ...] | None = None
    fields: tuple[tuple[str, Flow], ...] | None = field(default=None)

    def get(self, name: object) -> Flow | None:
        """The entry under a name, or None."""
        return next((flow for key, flow in self.fields or () if key == name), None)

    def whole(self) -> Flow:
        """The value with what its elements carry."""
        if self.parts is None and self.fields is None:
            return self
        inner = [*(self.parts or ()), *(flow for _, flow in self.fields or ())]
        return join([dataclasses.replace(self, parts=None, fields=None), *inner])


NOTHING = Flow()


def join(flows: Iterable[Flow]) -> Flow:
    """A value that may be any of these, or was made of all of them."""
    kept = [f for f in flows if f is not NOTHING]
    if not kept:
        return NOTHING
    if len(kept) == 1:
        return kept[0]
    parts = _common_parts(kept)
    fields: dict[str, list[Flow]] = {}
    for flow in kept:
        inner = flow if parts is not None or flow.parts is None else flow.whole()
        for key, value in inner.fields or ():
            fields.setdefault(key, []).append(value)
    wholes = kept if parts is not None else [f.whole() if f.parts is not None else f for f in kept]
    return Flow(
        labels=any(f.labels for f in wholes),
        count=any(f.count for f in wholes),
        losses=frozenset().union(*(f.losses for f in wholes)),
        value=next((f.value for f in kept if f.value is not None), None),
        parts=parts,
        fields=tuple((key, join(values)) for key, values in fields.items()) or None,
    )


def _common_parts(flows: list[Flow]) -> tuple[Flow, ...] | None:
    """Element-wise, where all are tuples of one length."""
    sizes = {len(f.parts) if f.parts is not None else -1 for f in flows}
    if len(sizes) != 1 or sizes == {-1}:
        return None
    return tuple(join(column) for column in zip(*(f.parts or () for f in flows), strict=True))


def counted(flow: Flow) -> Flow:
    """The same value, its losses divided by the count."""
    return _marked(flow, lambda call: dataclasses.replace(call, honours=Honours.YES))


def closed(flow: Flow, spot: Spot) -> Flow:
    """The same value, its losses reduced to a mean at `spot`; what the count has divided already stays."""

    def close(call: LossCall) -> LossCall:
        return dataclasses.replace(call, honours=Honours.NO, mean=spot) if call.honours is Honours.OPEN else call

    return _marked(flow, close)


def through(flow: Flow, spot: Spot) -> Flow:
    """The same value, with the call that leads to its losses."""

    def led(part: Flow) -> Flow:
        losses = frozenset(dataclasses.replace(c, via=spot) if c.spot != spot else c for c in part.losses)
        parts = tuple(map(led, part.parts)) if part.parts is not None else None
        fields = tuple((key, led(value)) for key, value in part.fields) if part.fields is not None else None
        return dataclasses.replace(part, losses=losses, parts=parts, fields=fields)

    return led(flow) if flow.whole().losses else flow


def _marked(flow: Flow, change: Callable[[LossCall], LossCall]) -> Flow:
    return dataclasses.replace(flow, losses=frozenset(map(change, flow.losses))) if flow.losses else flow


def with_entry(base: Flow, key: object, flow: Flow) -> Flow:
    """A dict with one more entry; whoever holds the count or labels under a name carries them."""
    entries = tuple((name, old) for name, old in base.fields or () if name != key)
    return dataclasses.replace(
        base,
        count=base.count or (key == COUNT and flow.count),
        labels=base.labels or flow.labels,
        fields=(*entries, (str(key), flow)),
    )


def entry_of(base: Flow, key: object) -> Flow:
    """An entry of a dict that isn't known: by its name it is the count, labels, a loss, or neither."""
    if not isinstance(key, str):
        return dataclasses.replace(base.whole(), value=None)
    if key == COUNT:
        return Flow(count=base.count)
    if key == "loss":
        return Flow(losses=base.losses)
    return Flow(labels=base.labels and LABELS.search(key) is not None)
