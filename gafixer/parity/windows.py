"""A window: the microbatches between two optimizer steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Microbatch", "Window", "copy_of", "join", "rows", "split"]

Microbatch = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Window:
    """Microbatches in the order they are trained on; across ranks, rank r takes each `processes`-th from r on."""

    microbatches: tuple[Microbatch, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Samples per microbatch."""
        return tuple(rows(m) for m in self.microbatches)

    def whole(self) -> Microbatch:
        """The window as one batch."""
        return join(self.microbatches)


def rows(batch: Microbatch) -> int:
    """Samples of a batch: the length of its first tensor or list.

    Raises:
        ValueError: where the batch holds neither.
    """
    for value in batch.values():
        if isinstance(value, list) or (torch.is_tensor(value) and value.dim() > 0):
            return len(value)
    raise ValueError("a batch without tensors has no samples")


def copy_of(
    batch: Microbatch, device: torch.device | str | None = None, dtype: torch.dtype | None = None
) -> dict[str, Any]:
    """A copy that a forward may change, on `device`; floating values in `dtype`, targets of a loss included."""
    return {name: _copied(value, device, dtype) for name, value in batch.items()}


def _copied(value: Any, device: torch.device | str | None, dtype: torch.dtype | None) -> Any:
    match value:
        case torch.Tensor():
            copied = value.detach().clone().to(device)
            return copied.to(dtype) if dtype is not None and copied.is_floating_point() else copied
        case dict():
            return {name: _copied(part, device, dtype) for name, part in value.items()}
        case list():
            return [_copied(part, device, dtype) for part in value]
        case _:
            return value


def join(batches: tuple[Microbatch, ...]) -> dict[str, Any]:
    """One batch of all samples. Tensors and lists are joined along samples; anything else must be the same in all.

    Raises:
        ValueError: where batches differ in their names, in their shapes beyond the first, or in plain values.
    """
    first = batches[0]
    if any(batch.keys() != first.keys() for batch in batches):
        raise ValueError("microbatches with different keys make no common batch")
    joined: dict[str, Any] = {}
    for name, value in first.items():
        values = [batch[name] for batch in batches]
        match value:
            case torch.Tensor() if value.dim() > 0:
                if any(v.shape[1:] != value.shape[1:] for v in values):
                    raise ValueError(f"{name}: microbatches padded to different shapes make no common batch")
                joined[name] = torch.cat(values)
            case list():
                joined[name] = [item for v in values for item in v]
            case _ if all(bool(v == value) for v in values):
                joined[name] = value
            case _:
                raise ValueError(f"{name}: differs between microbatches")
    return joined


def split(batch: Microbatch, sizes: tuple[int, ...]) -> Window:
    """Cut a batch into microbatches of these sizes.

    Raises:
        ValueError: where the sizes do not add up to the batch's samples.
    """
    if sum(sizes) != rows(batch):
        raise ValueError(f"{sizes} do not add up to {rows(batch)} samples")
    microbatches, start = [], 0
    for size in sizes:
        microbatches.append({name: _slice(value, start, start + size) for name, value in batch.items()})
        start += size
    return Window(tuple(microbatches))


def _slice(value: Any, start: int, end: int) -> Any:
    sliceable = isinstance(value, list) or (torch.is_tensor(value) and value.dim() > 0)
    return value[start:end] if sliceable else value
