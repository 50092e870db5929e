"""Exactly weighted microbatches: each mean in a loss weighed by its own share of the window's items.

For a mean over n_i items, mean_i × n_i / N summed over the microbatches is the sum over the window divided by N, to the
last bit of the arithmetic. What a loss adds outside of any mean (a router's balance) is weighed by samples.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812  # torch's own documentation calls it so
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["MEANS", "Recorder", "Weigher", "items_of"]


def _means() -> dict[Any, inspect.Signature]:
    """Every loss function of torch that can reduce by a mean."""
    found = {}
    for function in vars(F).values():
        if inspect.isfunction(function) and not function.__name__.startswith("_"):
            signature = inspect.signature(function)
            if "reduction" in signature.parameters:
                found[function] = signature
    return found


MEANS = _means()


def items_of(function: Callable[..., Any], arguments: dict[str, Any]) -> float:
    """What the mean of this loss call divides by: scored targets, the mass of class weights, elements or samples."""
    if function is F.ctc_loss:  # a mean over samples, whatever their lengths; targets may be one row after the other
        return float(len(arguments["target_lengths"]))
    target: Any = arguments.get("target")
    if arguments.get("reduction") == "batchmean":
        return float(len(target)) if torch.is_tensor(target) and target.dim() > 0 else 1.0
    if function in (F.cross_entropy, F.nll_loss) and not target.is_floating_point():
        scored = target != arguments.get("ignore_index", -100)
        weight = arguments.get("weight")
        if weight is None:
            return float(scored.sum())
        return float(weight[target[scored]].sum())
    if function is F.cross_entropy:  # targets are probabilities over classes: one item per row
        return float(target.numel() // target.shape[1 if target.dim() > 1 else 0])
    loss = function(**{**arguments, "reduction": "none"})
    return float(loss.numel())


def _bound(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = MEANS[function].bind(*args, **kwargs)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    for deprecated in ("size_average", "reduce"):
        arguments.pop(deprecated, None)
    return arguments


class Recorder(TorchFunctionMode):
    """Lists the items and the arguments of each mean-reduced loss call of a forward, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[float] = []
        self.calls: list[dict[str, Any]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Record, then call as if nothing were there."""
        kwargs = kwargs or {}
        if func in MEANS:
            arguments = _bound(func, args, kwargs)
            if arguments["reduction"] in ("mean", "batchmean"):
                self.items.append(items_of(func, arguments))
                self.calls.append(arguments)
        return func(*args, **kwargs)


class Weigher(TorchFunctionMode):
    """Multiplies each mean-reduced loss call of a forward by its share, in order; one with no items becomes zero."""

    def __init__(self, shares: Sequence[float]) -> None:
        super().__init__()
        self._shares = iter(shares)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call, then weigh."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in MEANS and _bound(func, args, kwargs)["reduction"] in ("mean", "batchmean"):
            share = next(self._shares)
            return result * share if share else torch.zeros_like(result)
        return result
