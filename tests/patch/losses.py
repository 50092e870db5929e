"""Losses as people write them for `Trainer`, with and without the count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from transformers import Trainer

if TYPE_CHECKING:
    from torch import Tensor


def logits_of(outputs: Any) -> Tensor:
    """The logits of an output that may hold a loss."""
    found: Tensor = outputs["logits"]
    return found


def next_token(outputs: Any, labels: Tensor, **how: Any) -> Tensor:
    """Cross-entropy of the next token."""
    logits = logits_of(outputs)[:, :-1]
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), **how)


def mean(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
    """Ignores the count."""
    return next_token(outputs, labels)


def counted(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
    """Divides by the count."""
    if num_items_in_batch is None:
        return next_token(outputs, labels)
    summed: Tensor = next_token(outputs, labels, reduction="sum")
    divided: Tensor = summed / num_items_in_batch
    return divided


def counted_as_number(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
    """Divides by the count, made a number first."""
    if num_items_in_batch is None:
        return next_token(outputs, labels)
    return next_token(outputs, labels, reduction="sum") / float(num_items_in_batch)


def masked(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
    """A mean over the mask, by hand."""
    mask = (labels[:, 1:].reshape(-1) != -100).float()
    return (next_token(outputs, labels, reduction="none") * mask).sum() / mask.sum()


def weighted(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
    """Class weights: items are the mass of the weights."""
    return next_token(outputs, labels, weight=torch.linspace(0.5, 2.0, logits_of(outputs).shape[-1]))


def no_labels(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
    """A mean over samples of something that has no labels."""
    return logits_of(outputs).pow(2).mean((1, 2)).mean()


class Own(Trainer):
    """Computes its loss itself and takes the count."""

    rule = staticmethod(mean)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """As many write it."""
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = type(self).rule(outputs, labels, num_items_in_batch)
        return (loss, outputs) if return_outputs else loss


class OwnCounted(Own):
    """Divides by the count."""

    rule = staticmethod(counted)


class OwnWithoutLabels(Own):
    """Uses no labels."""

    rule = staticmethod(no_labels)


class OwnOld(Trainer):
    """A signature of before 4.46, which fails there."""

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False) -> Any:  # type: ignore[override]  # meant
        """Without the count."""
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = mean(outputs, labels)
        return (loss, outputs) if return_outputs else loss


class OnTop(Trainer):
    """Adds a penalty to the Trainer's loss."""

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None, **more: Any
    ) -> Any:
        """Through super, in every release."""
        if num_items_in_batch is not None:
            more["num_items_in_batch"] = num_items_in_batch
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **more)
        loss = loss + penalty(model)
        return (loss, outputs) if return_outputs else loss


def penalty(model: Any) -> Tensor:
    """Squares of the weights, small."""
    squares: Tensor = 0.01 * sum((p**2).sum() for p in model.parameters())
    return squares
