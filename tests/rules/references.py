"""What each pair of training scripts is held to: the loss of a whole window in one batch, and the runs to try.

A reference knows the model, the data and the per-item loss of a script, and nothing of how the script accumulates:
`loss(model, window)` makes one batch of the window's microbatches and takes its plain mean.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody imports it
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["REFERENCES", "Batch", "Reference", "Run", "Window"]

Batch = Any  # a tensor, or a tuple of tensors: what the script's loader yields
Window = list[Batch]


@dataclass(frozen=True, slots=True)
class Run:
    """One way to run a script.

    `arguments` go to `build` or `train`, whichever names them. `blank` is a microbatch in which nothing is scored.
    `wrong` tells that the faulty script misses the reference here.
    """

    arguments: Mapping[str, int] = field(default_factory=dict)
    blank: int | None = None
    wrong: bool = True

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.arguments.items()]
        if self.blank is not None:
            parts.append(f"blank={self.blank}")
        return ",".join(parts) or "as_written"


@dataclass(frozen=True, slots=True)
class Reference:
    """The right gradients of a script.

    `windows` cuts the loader's batches as the right script does, given the arguments of the run over the script's
    defaults. `max_norm` names the argument to which the script clips; `ignored` is the label that isn't scored.
    """

    loss: Callable[[nn.Module, Window], Tensor]
    windows: Callable[[list[Batch], Mapping[str, Any]], Iterator[Window]]
    runs: tuple[Run, ...]
    max_norm: str | None = None
    ignored: int = -100


def _chunks(batches: Sequence[Batch], size: int) -> Iterator[Window]:
    for start in range(0, len(batches), size):
        yield list(batches[start : start + size])


def _epochs(batches: list[Batch], arguments: Mapping[str, Any]) -> Iterator[Window]:
    """Windows that end with the epoch."""
    for _ in range(arguments.get("epochs", 1)):
        yield from _chunks(batches, arguments["steps"])


def _endless(batches: list[Batch], arguments: Mapping[str, Any]) -> Iterator[Window]:
    """Full windows of a stream that starts the batches again."""
    stream = itertools.cycle(batches)
    for _ in range(arguments["updates"]):
        yield list(itertools.islice(stream, arguments["steps"]))


def _slices(batches: list[Batch], arguments: Mapping[str, Any]) -> Iterator[Window]:
    """Each batch is a window: the script cuts it."""
    del arguments
    yield from ([batch] for batch in batches)


def _joined(window: Window, *fills: int) -> tuple[Tensor, ...]:
    """One batch: sequences are padded to the longest of the window, each part with its own filling."""
    longest = max(batch[0].size(1) for batch in window)
    columns = zip(*window, strict=True)
    return tuple(
        torch.cat([F.pad(part, (0, longest - part.size(1)), value=fill) for part in column])
        for column, fill in zip(columns, fills, strict=True)
    )


def _stacked(window: Window) -> tuple[Tensor, ...]:
    return tuple(torch.cat(column) for column in zip(*window, strict=True))


def _tags(model: nn.Module, window: Window) -> Tensor:
    tokens, tags = _joined(window, 0, -100)
    return F.cross_entropy(model(tokens).flatten(0, 1), tags.flatten())


def _next_tokens(model: nn.Module, window: Window) -> Tensor:
    tokens, labels = _joined(window, 0, -100)
    return F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def _experts(model: nn.Module, window: Window) -> Tensor:
    """Tokens are averaged over the window; the balance, a figure of a microbatch, over the microbatches."""
    tokens, labels = _joined(window, 0, -100)
    token_loss = F.cross_entropy(model(tokens)[0].flatten(0, 1), labels.flatten())
    balance = torch.stack([model(tokens)[1] for tokens, _ in window]).mean()
    return token_loss + 0.5 * balance


def _pixels(model: nn.Module, window: Window) -> Tensor:
    images, masks = _stacked(window)
    return F.cross_entropy(model(images), masks, ignore_index=255)


def _ratings(model: nn.Module, window: Window) -> Tensor:
    users, ratings, rated = _stacked(window)
    return F.mse_loss(model(users)[rated], ratings[rated])


def _supervised(criterion: Callable[[Tensor, Tensor], Tensor]) -> Callable[[nn.Module, Window], Tensor]:
    def loss(model: nn.Module, window: Window) -> Tensor:
        inputs, targets = _stacked(window)
        return criterion(model(inputs), targets)

    return loss


def _reconstruction(model: nn.Module, window: Window) -> Tensor:
    inputs = torch.cat(window)
    return F.mse_loss(model(inputs), inputs)


# Every script is run as written, with other sizes, and with windows of one microbatch.
_AS_WRITTEN = Run()
_UNEVEN = Run({"steps": 3, "batch_size": 3})
_ALONE = Run({"steps": 1})
_ALONE_IS_RIGHT = Run({"steps": 1}, wrong=False)
_EPOCHS = (_AS_WRITTEN, _UNEVEN, _ALONE_IS_RIGHT)
_TOKENS = (*_EPOCHS, Run(blank=1), Run({"steps": 1}, blank=1, wrong=False))

REFERENCES = {
    "GA101": Reference(_tags, _epochs, _TOKENS, max_norm="max_norm"),
    "GA102": Reference(_supervised(F.mse_loss), _epochs, _EPOCHS),
    # Accelerate divides by its own number of steps: full windows only.
    "GA103": Reference(
        _supervised(F.mse_loss),
        _epochs,
        (_AS_WRITTEN, Run({"steps": 2, "batch_size": 4}), _ALONE_IS_RIGHT),
        max_norm="max_norm",
    ),
    "GA104": Reference(_supervised(F.cross_entropy), _epochs, _EPOCHS, max_norm="max_norm"),
    "GA105": Reference(
        _supervised(F.binary_cross_entropy_with_logits),
        _epochs,
        (_AS_WRITTEN, Run({"steps": 3, "batch_size": 4}), _ALONE),
    ),
    "GA106": Reference(_experts, _epochs, (_AS_WRITTEN, _UNEVEN, _ALONE, Run(blank=1))),
    "GA201": Reference(_supervised(F.smooth_l1_loss), _epochs, _EPOCHS),
    "GA202": Reference(_pixels, _epochs, _TOKENS, ignored=255),
    "GA203": Reference(_supervised(F.l1_loss), _epochs, _EPOCHS),
    "GA204": Reference(
        _supervised(F.binary_cross_entropy_with_logits),
        _slices,
        (_AS_WRITTEN, Run({"slice_size": 2, "batch_size": 7}), Run({"slice_size": 8}, wrong=False)),
        max_norm="max_norm",
    ),
    "GA205": Reference(_reconstruction, _endless, (_AS_WRITTEN, Run({"steps": 3, "updates": 5}), _ALONE_IS_RIGHT)),
    "GA206": Reference(_supervised(F.cross_entropy), _epochs, _EPOCHS),
    "GA207": Reference(_supervised(F.mse_loss), _endless, (_AS_WRITTEN, Run({"steps": 3}), _ALONE_IS_RIGHT)),
    "GA208": Reference(_ratings, _epochs, _EPOCHS),
    "GA401": Reference(_next_tokens, _epochs, (_AS_WRITTEN, _UNEVEN, _ALONE, Run(blank=1))),
    "GA402": Reference(_tags, _epochs, (_AS_WRITTEN, _UNEVEN, _ALONE, Run(blank=1))),
    "GA501": Reference(_supervised(F.mse_loss), _endless, (_AS_WRITTEN, Run({"steps": 3}), _ALONE_IS_RIGHT)),
}
