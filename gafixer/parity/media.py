"""Targets of heads that see or hear: classes per frame or pixel, transcripts, boxes, masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gafixer.parity.inputs import IGNORED, number
from gafixer.parity.models import LABELS

if TYPE_CHECKING:
    from gafixer.parity.inputs import Draw

__all__ = ["boxes", "depths", "frames", "masks", "pixels", "transcripts"]

_BLANKS = 2  # ids below are pad or blank in every tiny vocabulary


def transcripts(draw: Draw) -> dict[str, Any]:
    """A short text per recording, as long as half the row's tokens, padded with ignored labels."""
    inputs, _, _ = draw.batch()
    lengths = [max(1, n // 2) for n in draw.lengths]
    vocabulary = number(draw.model.config, "vocab_size", default=32)
    labels = _BLANKS + draw.choose(vocabulary - _BLANKS, draw.rows, max(lengths))
    for row, length in enumerate(lengths):
        labels[row, length:] = IGNORED
    return {**inputs, "labels": labels}


def frames(draw: Draw) -> dict[str, Any]:
    """A class per frame, one-hot; how many frames a recording has is the model's own affair."""
    inputs, _, _ = draw.batch()
    with torch.no_grad():
        count = draw.model(**{name: value[:2] for name, value in inputs.items()}).logits.shape[1]
    classes = draw.choose(LABELS, draw.rows, count)
    return {**inputs, "labels": torch.nn.functional.one_hot(classes, LABELS)}


def pixels(draw: Draw) -> dict[str, Any]:
    """A class per pixel; most pixels of most images are ignored."""
    inputs, _, _ = draw.batch()
    _, height, width = draw.image
    ignored = number(draw.model.config, "semantic_loss_ignore_index", default=255)
    labels = draw.choose(LABELS, draw.rows, height, width)
    for row, length in enumerate(draw.lengths):
        labels[row, height * length // max(draw.lengths) :] = ignored
    return {**inputs, "labels": labels}


def depths(draw: Draw) -> dict[str, Any]:
    """A distance per pixel."""
    inputs, _, _ = draw.batch()
    _, height, width = draw.image
    return {**inputs, "labels": draw.random(draw.rows, height, width).abs() + 0.5}


def _counts(draw: Draw) -> list[int]:
    """Objects in each image: 4, 3, 1, 1, 2, 1, 1, 1."""
    return [max(1, length // 4) for length in draw.lengths]


def boxes(draw: Draw) -> dict[str, Any]:
    """A few boxes per image, each inside of it: centre, width and height as shares of the image."""
    inputs, _, _ = draw.batch()
    classes = number(draw.model.config, "num_labels", default=LABELS)
    labels = []
    for count in _counts(draw):
        centre = 0.3 + 0.4 * torch.rand(count, 2, generator=draw.generator)
        size = 0.1 + 0.3 * torch.rand(count, 2, generator=draw.generator)
        labels.append({"class_labels": draw.choose(classes, count), "boxes": torch.cat([centre, size], 1)})
    return {**inputs, "labels": labels}


def masks(draw: Draw) -> dict[str, Any]:
    """A few masks per image, with a class each; one mask where the head takes no classes."""
    inputs, _, _ = draw.batch()
    _, height, width = draw.image
    if "mask_labels" not in draw.parameters:
        return {**inputs, "labels": draw.choose(2, draw.rows, height, width).float()}
    classes = number(draw.model.config, "num_labels", default=LABELS)
    counts = _counts(draw)
    return {
        **inputs,
        "mask_labels": [draw.choose(2, count, height, width).float() for count in counts],
        "class_labels": [draw.choose(classes, count) for count in counts],
    }
