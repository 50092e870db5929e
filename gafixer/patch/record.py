"""Record the loss calls of a forward: torch's own functions, seen through a function mode, none of them replaced."""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["LossCall", "Recorder", "reading", "recording"]

_LOSSES: dict[Callable[..., Any], inspect.Signature] = {
    loss: inspect.signature(loss)
    for loss in (
        functional.binary_cross_entropy,
        functional.binary_cross_entropy_with_logits,
        functional.cross_entropy,
        functional.ctc_loss,
        functional.gaussian_nll_loss,
        functional.huber_loss,
        functional.kl_div,
        functional.l1_loss,
        functional.mse_loss,
        functional.multilabel_soft_margin_loss,
        functional.nll_loss,
        functional.poisson_nll_loss,
        functional.smooth_l1_loss,
        functional.soft_margin_loss,
    )
}


@dataclass(frozen=True, slots=True, eq=False)
class LossCall:
    """A loss as it was called; `value` is what it returned, alive in the graph.

    `classes` is the size of the class dimension, for losses that have one; `ignored` their ignored label.
    """

    value: Tensor
    target: Tensor
    reduction: str
    classes: int | None = None
    ignored: int | None = None
    class_weights: Tensor | None = None
    sequences: bool = False
    """The target is one sequence per sample (CTC): its items are samples, whatever their lengths."""


class Recorder(TorchFunctionMode):
    """While active, keeps every loss call whose value takes part in autograd, in order.

    Hooks that wrappers put on the tensors of this forward are for the backward to come: FSDP gathers its weights there,
    DeepSpeed scales. They stay silent under `reading`.

    `count` is what to hand over for `handed`, a count that requires grad: the same number, which torch's functions take
    for `handed`. FSDP and checkpoints tie together whatever goes into a layer and requires grad, so the count itself
    must not.
    """

    def __init__(self, handed: Tensor | None = None) -> None:
        super().__init__()
        self.calls: list[LossCall] = []
        self.count = None if handed is None else handed.detach()
        self._handed = handed

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is Tensor.register_hook:
            tensor, hook = args
            return func(tensor, _mute_while_reading(hook))
        kwargs = kwargs or {}
        if self.count is not None and getattr(func, "__name__", "") != "__get__":
            args = tuple(self._handed if arg is self.count else arg for arg in args)
            kwargs = {name: self._handed if arg is self.count else arg for name, arg in kwargs.items()}
        value = func(*args, **kwargs)
        signature = _LOSSES.get(func)
        if signature is not None and isinstance(value, Tensor) and value.requires_grad:
            self.calls.append(_call(func, value, signature.bind(*args, **kwargs)))
            return value.clone()  # heads add to their loss in place; what is kept stays what the call returned
        return value


_reading = False
"""Not a context variable: the autograd engine calls hooks from threads of its own."""


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Take gradients that aren't a step's: the hooks of a recorded forward do nothing inside."""
    global _reading
    _reading = True
    try:
        yield
    finally:
        _reading = False


def _mute_while_reading(hook: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    @functools.wraps(hook, assigned=())
    def muted(grad: Tensor) -> Any:
        return None if _reading else hook(grad)

    return muted


@contextlib.contextmanager
def recording(handed: Tensor | None = None) -> Iterator[Recorder]:
    """Record a forward. Compiled models run eagerly meanwhile: a compiled forward hides its loss calls."""
    stance = getattr(torch.compiler, "set_stance", None)  # from torch 2.6
    with (
        warnings.catch_warnings(),
        contextlib.nullcontext() if stance is None else stance("force_eager"),
        Recorder(handed) as recorder,
    ):
        # A loss may make a number of the count that it was handed, which requires grad here and nowhere else.
        warnings.filterwarnings("ignore", message="Converting a tensor with requires_grad=True to a scalar")
        yield recorder


def _call(func: Callable[..., Any], value: Tensor, bound: inspect.BoundArguments) -> LossCall:
    bound.apply_defaults()
    given = bound.arguments
    reduction = _reduction(given.get("size_average"), given.get("reduce"), given["reduction"])
    if func is functional.ctc_loss:
        return LossCall(value, given["targets"], reduction, sequences=True)
    if func in (functional.cross_entropy, functional.nll_loss):
        predicted: Tensor = given["input"]
        target: Tensor = given["target"]
        by_class = not target.is_floating_point()
        return LossCall(
            value,
            target,
            reduction,
            classes=predicted.shape[0 if predicted.dim() == 1 else 1],
            ignored=given["ignore_index"] if by_class else None,
            class_weights=given["weight"] if by_class else None,
        )
    return LossCall(value, given["target"], reduction)


@functools.cache
def _reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that wins when the two old flags are given as well."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"
