"""Library calls inside a traced function: losses that are known, and what is judged by what is handed to it."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from gafixer.analysis import flow as flows
from gafixer.analysis.flow import NOTHING, Flow, Honours, LossCall, Maker, join
from gafixer.analysis.values import Const, LossModule, Reduction
from gafixer.data.losses import FUNCTIONS, MODULES
from gafixer.data.transformers import PARTLY_COUNTED, UNCOUNTED

if TYPE_CHECKING:
    from gafixer.analysis.spot import Spot

__all__ = ["LIBRARY_LOSS", "Given", "criterion", "function", "is_loss_name", "method", "scaled", "unknown"]

#: A function or object that makes a loss, by its name.
_LOSS_NAME = re.compile(r"loss|label_smoother|criterion|cross_entropy|crossentropy|nll|objective", re.IGNORECASE)
#: What is no loss though its name says so.
_NO_LOSS = re.compile(r"loss_kwargs|loss_mask|loss_type|log_|metric|detach|loss_weight|lossy|pop|get$")
LIBRARY_LOSS = "transformers.loss_function."
#: Reductions that divide.
_MEANS = frozenset({"mean", "nanmean"})


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a call."""

    args: tuple[Flow, ...]
    keywords: dict[str, Flow]
    rest: Flow

    @property
    def all(self) -> list[Flow]:
        """All of them."""
        return [*self.args, *self.keywords.values(), self.rest]

    @property
    def labels(self) -> bool:
        """Whether one was made from the labels."""
        return any(f.whole().labels for f in self.all)

    @property
    def count(self) -> bool:
        """Whether one is, or holds, the count."""
        return any(f.whole().count for f in self.all)


def function(path: str, given: Given, spot: Spot) -> Flow:
    """A function or class of a library, called by its dotted name."""
    name = path.rpartition(".")[2]
    if path.startswith(LIBRARY_LOSS):
        return _default_loss(name, given, spot)
    if name in MODULES:
        return Flow(value=LossModule(name, _reduction(given, MODULES[name].reduction), spot))
    if name in FUNCTIONS and path.startswith(("torch", "F.")):
        return criterion(name, _reduction(given, FUNCTIONS[name].reduction), given, spot)
    if path.startswith("torch.") and name in {"div", "true_divide", "mul", "multiply"} and len(given.args) > 1:
        return scaled(given.args[0], given.args[1], spot, divides="di" in name)
    if path.startswith("torch.") and name in _MEANS:
        return _mean(join(given.all).whole(), name, spot)
    if name[:1].isupper() and any(f.whole().losses for f in given.keywords.values()):
        return Flow(fields=tuple(given.keywords.items()))
    return unknown(name, NOTHING, given, spot)


def _default_loss(kind: str, given: Given, spot: Spot) -> Flow:
    """``self.loss_function(...)``: the library's own loss of this kind."""
    if kind in UNCOUNTED or not given.count:
        honours = Honours.NO
    else:
        honours = Honours.PARTLY if kind in PARTLY_COUNTED else Honours.YES
    return Flow(losses=frozenset({LossCall(spot, kind, honours, Maker.LIBRARY)}))


def _reduction(given: Given, default: str) -> Reduction:
    said = given.keywords.get("reduction")
    if said is None:
        return Reduction(default)
    if isinstance(said.value, Const) and said.value.value in {"mean", "sum", "none"}:
        return Reduction(said.value.value)
    return Reduction.UNKNOWN


def criterion(name: str, reduction: Reduction, given: Given, spot: Spot) -> Flow:
    """A loss of PyTorch: a mean is closed, a sum or a loss per item still open."""
    honours = Honours.NO if reduction is Reduction.MEAN else Honours.OPEN
    if reduction is Reduction.UNKNOWN and given.count:
        honours = Honours.YES
    return Flow(losses=frozenset({LossCall(spot, name, honours, Maker.CRITERION)}))


def method(base: Flow, target: Flow, name: str, given: Given, spot: Spot) -> Flow:
    """A method of something that is no object of the project."""
    if name in {"get", "pop", "setdefault", "__getitem__"} and given.args and isinstance(given.args[0].value, Const):
        key = given.args[0].value.value
        return base.get(key) or flows.entry_of(dataclasses.replace(base, value=None), key)
    if name in {"detach", "item", "detach_", "numpy", "tolist"}:
        return Flow(labels=base.labels, count=base.count)
    if name in {"div", "div_", "mul", "mul_", "true_divide"} and given.args:
        return scaled(base, given.args[0], spot, divides="d" in name)
    if name in _MEANS:
        return _mean(join([base.whole(), *given.all]).whole(), name, spot)
    if name in {"size", "dim", "numel", "type"} and not base.losses:
        return NOTHING
    return unknown(name, target if target is not NOTHING else base, given, spot)


def unknown(name: str, base: Flow, given: Given, spot: Spot) -> Flow:
    """A call that is not followed: a loss by its name, a model by what it is handed, else what went in comes out."""
    inner = join([*given.all, base])
    everything = dataclasses.replace(inner.whole(), value=None)
    if everything.losses:
        return everything
    if everything.labels and is_loss_name(name):
        honours = Honours.YES if given.count else Honours.NO
        return Flow(losses=frozenset({LossCall(spot, name, honours, Maker.FUNCTION)}))
    if _is_model_call(name, given):
        honours = Honours.YES if given.count else Honours.NO
        made = frozenset({LossCall(spot, name, honours, Maker.MODEL)})
        return Flow(fields=(("loss", Flow(losses=made)),))
    # A count that is handed on by its name, or with all else, is no part of what comes back.
    return Flow(labels=everything.labels, count=base.whole().count or any(f.whole().count for f in given.args))


def is_loss_name(name: str) -> bool:
    """Whether something makes a loss, by its name."""
    return _LOSS_NAME.search(name) is not None and _NO_LOSS.search(name) is None


def _is_model_call(name: str, given: Given) -> bool:
    """Whether labels are handed over by their name, or with the whole batch, to something that may be a model."""
    named = any(key == "labels" and flow.labels for key, flow in given.keywords.items())
    return (named or given.rest.labels) and re.search(r"^(dict|update|copy|print|debug|info|log)", name) is None


def scaled(left: Flow, right: Flow, spot: Spot, *, divides: bool) -> Flow:
    """A product or quotient: losses that meet the count are divided by it, a quotient by anything else closes them."""
    whole_left, whole_right = left.whole(), right.whole()
    both = dataclasses.replace(join([whole_left, whole_right]), value=None)
    if both.losses and (whole_right.count or whole_left.count):
        return dataclasses.replace(flows.counted(both), count=False)
    if divides and both.losses and not isinstance(right.value, Const):
        return flows.closed(both, spot)
    return both


def _mean(flow: Flow, name: str, spot: Spot) -> Flow:
    """A mean: of losses per item it closes them, of anything else made from labels it is a loss by hand."""
    if flow.losses:
        return flows.closed(dataclasses.replace(flow, value=None), spot)
    if flow.labels:
        return Flow(losses=frozenset({LossCall(spot, name, Honours.NO, Maker.REDUCTION)}))
    return Flow(count=flow.count)
