"""The pieces of a training step: the call of `compute_loss`, what releases and Accelerate do to its loss, shadows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gafixer.patch import flags

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Call", "Shadows", "backward_divisor", "derives", "is_compiled", "like"]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of `compute_loss`, as the Trainer made it."""

    original: Callable[..., Any]
    model: Any
    inputs: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def count(self) -> Any:
        return self.kwargs.get("num_items_in_batch", self.args[1] if len(self.args) > 1 else None)

    @property
    def bare(self) -> Any:
        return flags.bare_model(self.model)

    def run(self, count: Any) -> tuple[Tensor, tuple[Any, ...] | None]:
        """The loss, and what came with it; None where the loss came alone."""
        args, kwargs = self.args[:1], dict(self.kwargs)
        if "num_items_in_batch" in kwargs or len(self.args) > 1:
            kwargs["num_items_in_batch"] = count
        if not flags.takes_count(self.original):
            kwargs.pop("num_items_in_batch", None)
        result = self.original(self.model, self.inputs, *args, **kwargs)
        return (result[0], tuple(result[1:])) if isinstance(result, tuple) else (result, None)


class Shadows:
    """Attributes set on instances for a while.

    What was in an instance's `__dict__` before, or nothing, is there again after. Use as a context manager.
    """

    def __init__(self) -> None:
        self._before: list[tuple[dict[str, Any], str, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute until the end."""
        held = vars(owner)
        self._before.append((held, name, held.get(name, _ABSENT)))
        held[name] = value

    def restore(self) -> None:
        """Put back what was there."""
        while self._before:
            held, name, before = self._before.pop()
            if before is _ABSENT:
                held.pop(name, None)
            else:
                held[name] = before

    def __enter__(self) -> Shadows:
        return self

    def __exit__(self, *raised: object) -> None:
        self.restore()


_ABSENT: Any = object()


def derives(loss: Tensor, ours: Tensor) -> bool:
    """Whether `loss` is `ours`, or `ours` divided, multiplied or averaged once.

    What releases do between loss and backward.
    """
    if loss is ours:
        return True
    node, source = loss.grad_fn, ours.grad_fn
    if node is None or source is None or node.name() not in ("DivBackward0", "MulBackward0", "MeanBackward0"):
        return False
    return any(parent is source for parent, _ in node.next_functions)


def backward_divisor(accelerator: Any, kwargs: dict[str, Any]) -> int:
    """By how much `accelerator.backward` will divide."""
    if accelerator.distributed_type.value != "DEEPSPEED":
        return int(accelerator.gradient_accumulation_steps)
    if kwargs.get("scale_wrt_gas") is False:
        return 1
    return int(accelerator.deepspeed_engine_wrapped.engine.gradient_accumulation_steps())


def like(given: Any, value: float, device: torch.device) -> Any:
    """A count of the kind that the Trainer gave: a number for a number; whole numbers stay whole."""
    whole = value.is_integer()
    if not isinstance(given, Tensor):
        return int(value) if whole else value
    return torch.tensor(value, device=device, dtype=given.dtype if whole else torch.float32)


def is_compiled(model: Any) -> bool:
    while model is not None:
        if type(model).__name__ == "OptimizedModule" or getattr(model, "_compiled_call_impl", None) is not None:
            return True
        model = getattr(model, "module", None)
    return False
