"""Composer: splits each batch into microbatches, and weighs the mean of each by its share of the batch's samples."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gafixer.analysis.events import EventKind, Framework
from gafixer.analysis.spelling import peel
from gafixer.analysis.values import Called, Const, External, Sym, Value

if TYPE_CHECKING:
    from gafixer.analysis.interpreter import Interpreter
    from gafixer.analysis.spot import Spot

__all__ = ["send", "train"]

_TRAINER = re.compile(r"^composer\b.*\bTrainer$")


def train(run: Interpreter, path: str, args: list[Value], keywords: dict[str, Value], spot: Spot) -> bool:
    """Whether a call makes a Trainer; the default loss of the head that it wraps goes backward then."""
    if not _TRAINER.match(path):
        return False
    wrapped = peel(keywords.get("model", args[0] if args else Const(None)))
    match wrapped:
        case Called(func=External(path=made), args=(model, *_)) if made.endswith("HuggingFaceModel"):
            send(run, Called(model, (), (("labels", Sym("labels")),), spot, run.loops), spot)
        case _:
            pass
    return True


def send(run: Interpreter, loss: Value, spot: Spot) -> None:
    """The loss goes backward, and the optimizer steps, when Composer wants it."""
    run.emit(EventKind.BACKWARD, spot, loss, None, Framework.COMPOSER)
    run.emit(EventKind.STEP, spot, None, Sym("optimizer"), Framework.COMPOSER)
