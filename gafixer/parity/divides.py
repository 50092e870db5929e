"""Who divides in the installed pair of Transformers and Accelerate: found out by driving losses that are known.

A step over microbatches of equal counts is right when exactly one party divides. What the gradient is then too large or
too small by tells how many did.
"""

from __future__ import annotations

import enum
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gafixer.parity.drive import drive_trainer
from gafixer.parity.reference import witness
from gafixer.parity.windows import split

if TYPE_CHECKING:
    from collections.abc import Callable

    from gafixer.parity.windows import Window

__all__ = ["Division", "Loss", "who_divides"]

_STEPS = 4
_SAMPLES = 8


class Loss(enum.Enum):
    """Kinds of losses that a trainer treats differently."""

    PLAIN = "a forward without **kwargs"
    DROPS = "a forward that drops its **kwargs"
    HONOURS = "a forward that divides by num_items_in_batch"
    FUNCTION_IGNORES = "a compute_loss_func that ignores the count"
    FUNCTION_DIVIDES = "a compute_loss_func that divides by the count"


@dataclass(frozen=True, slots=True)
class Division:
    """How often the window's loss was divided: `ratio` is the gradient's norm over the right one's."""

    loss: Loss
    steps: int
    ratio: float

    @property
    def verdict(self) -> str:
        """The ratio in words."""
        for ratio, words in (
            (1.0, "divided once: right for equal counts"),
            (float(self.steps), "divided by nobody: too large by the steps"),
            (1.0 / self.steps, "divided twice: too small by the steps"),
        ):
            if abs(self.ratio - ratio) <= 1e-3 * ratio:
                return words
        return f"{self.ratio:.4g} times the reference"


class _Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 1)

    def outputs(self, x: torch.Tensor, labels: torch.Tensor | None) -> dict[str, torch.Tensor]:
        logits = self.linear(x)[:, 0]
        if labels is None:  # a trainer keeps them for its own loss function
            return {"logits": logits}
        return {"loss": nn.functional.mse_loss(logits, labels), "logits": logits}

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        return self.outputs(x, labels)


class _Drops(_Plain):
    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None, **kwargs: Any) -> dict[str, torch.Tensor]:
        return self.outputs(x, labels)


class _Honours(_Plain):
    # 4.46 and 4.47 look for keywords of this very name.
    def forward(
        self, x: torch.Tensor, labels: torch.Tensor | None = None, **loss_kwargs: Any
    ) -> dict[str, torch.Tensor]:
        outputs = self.outputs(x, labels)
        count = loss_kwargs.get("num_items_in_batch")
        if count is not None and labels is not None:
            outputs["loss"] = outputs["loss"] * len(labels) / count
        return outputs


def _ignores(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    return nn.functional.mse_loss(outputs["logits"], labels)


def _divides(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    count = len(labels) if num_items_in_batch is None else num_items_in_batch
    return nn.functional.mse_loss(outputs["logits"], labels, reduction="sum") / count


_MODELS: dict[Loss, tuple[type[_Plain], Callable[..., torch.Tensor] | None]] = {
    Loss.PLAIN: (_Plain, None),
    Loss.DROPS: (_Drops, None),
    Loss.HONOURS: (_Honours, None),
    Loss.FUNCTION_IGNORES: (_Plain, _ignores),
    Loss.FUNCTION_DIVIDES: (_Plain, _divides),
}


def _window() -> Window:
    generator = torch.Generator().manual_seed(0)
    batch = {
        "x": torch.randn(_SAMPLES, 3, generator=generator),
        "labels": torch.randn(_SAMPLES, generator=generator),
    }
    return split(batch, (_SAMPLES // _STEPS,) * _STEPS)


def who_divides() -> tuple[Division, ...]:
    """One step per kind of loss; a kind that the installed release has no place for is left out."""
    from transformers import Trainer

    takes_function = "compute_loss_func" in inspect.signature(Trainer.__init__).parameters
    found = []
    for loss, (model_class, function) in _MODELS.items():
        if function is not None and not takes_function:
            continue
        torch.manual_seed(0)
        model, window = model_class(), _window()
        right = witness(model, window).reference.vector
        driven = drive_trainer(model, window, loss_function=function)
        found.append(Division(loss, _STEPS, float(driven.vector.norm() / right.norm())))
    return tuple(found)
