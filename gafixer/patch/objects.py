"""Annotated objects: the boxes and masks that detection and instance segmentation match their queries to.

Such a loss scores no entries of the batch. Every object is matched to one query, and each query is to predict its
object's class, or none; boxes and masks are scored for the matched ones and divided by the number of objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["classes_of", "scored_by_queries", "source"]

_KEYS = ("labels", "class_labels")


def source(batch: object) -> str | None:
    """The key under which a batch holds objects: annotations per image, or class labels per image; None without."""
    if not isinstance(batch, Mapping):
        return None
    return next((key for key in _KEYS if _per_image(batch.get(key))), None)


def classes_of(batch: Mapping[str, Any], key: str) -> list[Tensor]:
    """The classes of each image's objects.

    Raises KeyError when the batch has none there.
    """
    found = _per_image(batch.get(key))
    if not found:
        raise KeyError(key)
    return found


def scored_by_queries(target: Tensor, images: Sequence[Tensor], classes: int) -> int | None:
    """How many queries an image has, where `target` holds, image by image, its objects' classes and none elsewhere.

    The last of the `classes` stands for none. None where the target is something else.
    """
    if target.is_floating_point() or target.dim() != 2 or target.shape[0] != len(images):
        return None
    nothing = classes - 1
    for queries, objects in zip(target.detach().cpu(), images, strict=True):
        if not torch.equal(queries[queries != nothing].sort().values, objects.detach().cpu().long().sort().values):
            return None
    return int(target.shape[1])


def _per_image(value: object) -> list[Tensor]:
    """Class labels per image; empty for what isn't that."""
    if not isinstance(value, (list, tuple)) or not value:
        return []
    found = [entry.get("class_labels") if isinstance(entry, Mapping) else entry for entry in value]
    kept = [v for v in found if isinstance(v, Tensor) and v.dim() == 1 and not v.is_floating_point()]
    return kept if len(kept) == len(value) else []
