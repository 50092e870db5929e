"""What a file must contain for anything here to be said of it: each byte is read once, most files no further."""

from __future__ import annotations

import enum
import re

__all__ = ["Matter", "matter", "may_matter"]


class Matter(enum.Flag):
    """What a file may be about."""

    NOTHING = 0
    BACKWARD = enum.auto()
    HEAD = enum.auto()
    TRAINER = enum.auto()
    USER = enum.auto()


_BACKWARD = re.compile(rb"backward\b")
_TRAINER = re.compile(
    rb"\bdef (?:compute_loss|training_step|get_batch_samples)\b|compute_loss_func|num_items_in_batch|LOSS_MAPPING"
    rb"|\.loss_function[ \t]*="
)
_MODEL = re.compile(rb"PreTrainedModel|\bclass \w+\([^)]*For[A-Z]\w*[^)]*\):")
_TARGETS = re.compile(rb"\blabels\b")


def matter(source: bytes) -> Matter:
    """What a file may hold: a loss that goes backward, a head, an override of a Trainer's part, a user of one."""
    found = Matter.NOTHING
    if _BACKWARD.search(source) is not None or (b"ightning" in source and b"def training_step" in source):
        found |= Matter.BACKWARD
    if _TRAINER.search(source) is not None:
        found |= Matter.TRAINER
    # Plain searches first: most files fail the first one, and those cost next to nothing.
    if (
        b"class " in source
        and b"loss" in source
        and _MODEL.search(source) is not None
        and _TARGETS.search(source) is not None
    ):
        found |= Matter.HEAD
    if b"Trainer(" in source and b"transformers" in source:
        found |= Matter.USER
    return found


def may_matter(source: bytes) -> bool:
    """Whether a file can hold anything that a rule speaks about."""
    return matter(source) is not Matter.NOTHING
