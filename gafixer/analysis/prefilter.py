"""What a file must contain for anything here to be said of it: each byte is read once, most files no further."""

from __future__ import annotations

import enum
import functools
import re

__all__ = ["Matter", "matter", "may_matter", "may_matter_in_json"]


class Matter(enum.Flag):
    """What a file may be about."""

    NOTHING = 0
    BACKWARD = enum.auto()
    HEAD = enum.auto()
    TRAINER = enum.auto()
    USER = enum.auto()


#: A call, or the method by its name; in prose alone the word says nothing.
_BACKWARD = re.compile(rb"backward(?:\w*[ \t]*\(|(?<=[.\"']backward)\b)")
#: One of these stands in whatever `_TRAINER` matches; that none does is known many times sooner.
_TRAINER_WORDS = (
    b"compute_loss",
    b"training_step",
    b"batch_samples",
    b"num_items_in_batch",
    b"LOSS_MAPPING",
    b"loss_fun",
)
_IGNITE = re.compile(rb"create_supervised_trainer|supervised_training_step")
_TRAINER = re.compile(
    rb"\bdef (?:compute_loss|training_step|get_batch_samples)\b|compute_loss_func|num_items_in_batch|LOSS_MAPPING"
    rb"|\.loss_function[ \t]*="
)
_MODEL = re.compile(rb"PreTrainedModel|\bclass \w+\([^)]*For[A-Z]\w*[^)]*\):")
_TARGETS = re.compile(rb"\blabels\b")
#: What `_TRAINER`, `_MODEL` and Lightning's hook are told by, and a class whose base is named like a head.
_WORDS = (
    b"compute_loss",
    b"training_step",
    b"get_batch_samples",
    b"num_items_in_batch",
    b"LOSS_MAPPING",
    b".loss_function",
    b"PreTrainedModel",
)
_SOME_HEAD = re.compile(rb"class \w+\([^)]*For[A-Z]")
#: A head that has its forward from elsewhere.
_INHERITS = re.compile(rb"\bclass \w+\([^)]*\b\w*For[A-Z]\w*[^)]*PreTrainedModel")


@functools.lru_cache(maxsize=2)
def matter(source: bytes) -> Matter:
    """What a file may hold: a loss that goes backward, a head, an override of a Trainer's part, a user of one."""
    found = Matter.NOTHING
    if _BACKWARD.search(source) is not None or b".training_step(" in source or _is_framework(source):
        found |= Matter.BACKWARD
    if any(word in source for word in _TRAINER_WORDS) and _TRAINER.search(source) is not None:
        found |= Matter.TRAINER
    if b"class " in source and _is_head(source):
        found |= Matter.HEAD
    if b"Trainer(" in source and b"transformers" in source:
        found |= Matter.USER
    return found


def _is_framework(source: bytes) -> bool:
    """Whether a framework may go backward for the code."""
    return (
        (b"ightning" in source and b"def training_step" in source)
        or (b"Accelerator(" in source and b"accumulation" in source)
        or (b"ignite" in source and _IGNITE.search(source) is not None)
        or (b"composer" in source and (b"def loss" in source or b"HuggingFaceModel(" in source))
    )


def _is_head(source: bytes) -> bool:
    """Whether a class may be a head: it takes labels and makes a loss, or inherits both."""
    if b"loss" in source and _TARGETS.search(source) is not None and _MODEL.search(source) is not None:
        return True
    return b"PreTrainedModel" in source and _INHERITS.search(source) is not None


def may_matter_in_json(document: bytes) -> bool:
    """Whether a program that stands in strings of a JSON document can hold anything that a rule speaks about.

    Words may be glued to escapes there, as in `\\ndef`, so they are looked for without their borders.
    """
    return (
        b"backward" in document
        or any(word in document for word in _WORDS)
        or (b"class " in document and _SOME_HEAD.search(document) is not None)
        or (b"Trainer(" in document and b"transformers" in document)
    )


def may_matter(source: bytes) -> bool:
    """Whether a file can hold anything that a rule speaks about."""
    return matter(source) is not Matter.NOTHING
