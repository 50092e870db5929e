"""The reference: the gradient of a whole window in one batch, plain mean, and what it can be held against."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from gafixer.parity.weigh import Recorder, Weigher
from gafixer.parity.windows import copy_of, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from gafixer.parity.windows import Microbatch, Window

    Forward = Callable[[dict[str, Any]], Any]

__all__ = ["Gradient", "NoLossError", "Witness", "flat", "loss_of", "witness"]

_SEED = 42


class NoLossError(ValueError):
    """A forward gave outputs and no loss."""


@dataclass(frozen=True, slots=True)
class Gradient:
    """A loss and its gradient over all trained parameters, flat, float64, on the CPU."""

    loss: float
    vector: torch.Tensor

    def __add__(self, other: Gradient) -> Gradient:
        return Gradient(self.loss + other.loss, self.vector + other.vector)

    def __mul__(self, factor: float) -> Gradient:
        return Gradient(self.loss * factor, self.vector * factor)


@dataclass(frozen=True, slots=True)
class Witness:
    """What is known of a window without any training step.

    `weighted` is None where the loss has no mean that could be weighed. `terms` holds, per loss call of a forward, its
    items in each microbatch. `depends_on_batch` says that a sample's outputs change with the samples beside it
    (BatchNorm, in-batch negatives): then no split of the window can meet the reference, and the weighted microbatches
    stand in for it. `random` says that two forwards of the same batch differ. `precision` is the relative spacing of
    the numbers that the model computes in.
    """

    reference: Gradient
    weighted: Gradient | None
    microbatch_means: tuple[Gradient, ...]
    terms: tuple[tuple[float, ...], ...]
    depends_on_batch: bool
    random: bool
    precision: float = torch.finfo(torch.float32).eps


def loss_of(output: Any) -> torch.Tensor:
    """The loss of a model's output: a mapping with `loss`, a tuple that begins with it, or the loss itself."""
    loss: torch.Tensor | None
    match output:
        case torch.Tensor():
            loss = output
        case dict():
            loss = output.get("loss")
        case _:
            loss = output[0]
    if loss is None:
        raise NoLossError("the forward takes labels but returns no loss")
    return loss.mean() if loss.dim() > 0 else loss


def flat(gradients: Sequence[torch.Tensor | None], parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    """The gradients as one vector, zeros where a parameter has none."""
    parts = [
        torch.zeros(p.numel(), dtype=torch.float64) if g is None else g.detach().reshape(-1).double().cpu()
        for g, p in zip(gradients, parameters, strict=True)
    ]
    return torch.cat(parts)


def _gradient(
    model: Any,
    batch: Microbatch,
    forward: Forward,
    mode: AbstractContextManager[Any] | None = None,
    seed: int = _SEED,
) -> Gradient:
    parameters = [p for p in model.parameters() if p.requires_grad]
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    with mode or contextlib.nullcontext():
        loss = loss_of(forward(copy_of(batch)))
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    vector = flat([p.grad for p in parameters], parameters)
    model.zero_grad(set_to_none=True)
    return Gradient(float(loss.detach()), vector)


def _weighted(model: Any, window: Window, forward: Forward, terms: tuple[tuple[float, ...], ...]) -> Gradient | None:
    calls = {len(term) for term in terms}
    if calls != {len(terms[0])} or not terms[0]:
        return None
    totals = [sum(items) for items in zip(*terms, strict=True)]
    samples = sum(window.sizes)
    result = None
    for batch, items in zip(window.microbatches, terms, strict=True):
        by_samples = rows(batch) / samples
        shares = [n / total / by_samples if total else 0.0 for n, total in zip(items, totals, strict=True)]
        part = _gradient(model, batch, forward, Weigher(shares)) * by_samples
        result = part if result is None else result + part
    return result


def _outputs(batch: Microbatch, forward: Forward) -> dict[str, torch.Tensor]:
    torch.manual_seed(_SEED)
    with torch.no_grad():
        output = forward(copy_of(batch))
    match output:
        case torch.Tensor():
            return {}
        case dict():
            named = dict(output)
        case _:
            named = dict(enumerate(output))
    count = rows(batch)
    return {
        str(name): value.double()
        for name, value in named.items()
        if torch.is_tensor(value) and value.is_floating_point() and value.dim() > 1 and len(value) == count
    }


def _depends_on_batch(model: Any, window: Window, forward: Forward, tolerance: float) -> bool:
    """Whether a sample's outputs differ between the whole window and its microbatch.

    A forward that gives nothing but its loss is asked for its normalisation instead.
    """
    whole = _outputs(window.whole(), forward)
    if not whole:
        return any(isinstance(m, _BatchNorm) and m.training for m in model.modules())
    parts = [_outputs(batch, forward) for batch in window.microbatches]
    for name, value in whole.items():
        pieces = [part[name] for part in parts if name in part]
        if len(pieces) != len(parts) or any(p.shape[1:] != value.shape[1:] for p in pieces):
            continue
        apart = (torch.cat(pieces) - value).abs().nan_to_num().max()
        if apart > tolerance * value.abs().nan_to_num().max().clamp_min(1e-12):
            return True
    return False


@contextlib.contextmanager
def _buffers_kept(model: Any) -> Iterator[None]:
    """Running statistics and the like are put back afterwards."""
    kept = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name in kept and buffer.shape == kept[name].shape:
                    buffer.copy_(kept[name])


def witness(model: Any, window: Window, forward: Forward | None = None) -> Witness:
    """Run the window in one batch, as plain microbatches and as exactly weighted ones. The model is left as it was.

    `forward` takes a batch and gives the model's output or its loss: a plain mean over the batch's items. By default
    the batch is handed to the model by keywords.
    """
    forward = forward or (lambda batch: model(**batch))
    with _buffers_kept(model):
        return _witness(model, window, forward)


def _witness(model: Any, window: Window, forward: Forward) -> Witness:
    whole = window.whole()
    reference = _gradient(model, whole, forward)
    again = _gradient(model, whole, forward, seed=_SEED + 1)
    terms, means = [], []
    for batch in window.microbatches:
        recorder = Recorder()
        means.append(_gradient(model, batch, forward, recorder))
        terms.append(tuple(recorder.items))
    precision = torch.finfo(next(p.dtype for p in model.parameters() if p.is_floating_point())).eps
    tolerance = max(1e-4, 4 * precision)
    scale = reference.vector.norm().clamp_min(1e-30)
    return Witness(
        reference=reference,
        weighted=_weighted(model, window, forward, tuple(terms)),
        microbatch_means=tuple(means),
        terms=tuple(terms),
        depends_on_batch=_depends_on_batch(model, window, forward, tolerance),
        random=bool((again.vector - reference.vector).norm() > tolerance * scale),
        precision=precision,
    )
