"""The wrappers around `transformers.Trainer`. Each takes the original function and returns what stands in its place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from gafixer.patch import flags, messages, plain
from gafixer.patch.step import Book, Step
from gafixer.patch.window import Window

__all__ = ["compute_loss", "get_batch_samples", "prediction_step", "training_step"]

_books: WeakKeyDictionary[Any, Book] = WeakKeyDictionary()

Function = Callable[..., Any]


def get_batch_samples(original: Function) -> Function:
    """Keep the window. The steps of an epoch's end are counted as the loop counts them, in 4.46 and 4.47 too."""

    @functools.wraps(original)
    def wrapper(self: Any, epoch_iterator: Any, num_batches: int, *args: Any, **kwargs: Any) -> Any:
        num_batches = max(num_batches, self.args.gradient_accumulation_steps)
        batches, count = original(self, epoch_iterator, num_batches, *args, **kwargs)
        open_window(self, batches)
        return batches, count

    return wrapper


def training_step(original: Function) -> Function:
    """Weigh the loss of the step and report the window's true loss."""

    @functools.wraps(original)
    def wrapper(self: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        book = _books.get(self)
        window = None if book is None else book.window
        place = None if window is None else window.place(inputs)
        reason = _stands_down(self, place)
        if reason is not None or book is None or window is None or place is None:
            messages.once(self, f"left as it is: {reason}")
            return original(self, model, inputs, *args, **kwargs)
        with plain.bypassed(), Step(self, book, window, place) as step:
            returned = original(self, model, inputs, *args, **kwargs)
        return step.reported(returned)

    return wrapper


def compute_loss(original: Function) -> Function:
    """The Trainer's own loss, as a step needs it. Outside a step, as in evaluation, nothing changes."""

    @functools.wraps(original)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        book = _books.get(self)
        if book is None or book.step is None:
            return original(self, *args, **kwargs)
        with book.step.trainer_loss():
            return original(self, *args, **kwargs)

    return wrapper


def prediction_step(original: Function) -> Function:
    """Evaluation sees the heads as they are."""

    @functools.wraps(original)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        with plain.bypassed():
            return original(self, *args, **kwargs)

    return wrapper


def open_window(trainer: Any, batches: list[Any]) -> None:
    """Begin a window of these microbatches on this rank."""
    book = _books.setdefault(trainer, Book())
    ranks = trainer.accelerator.num_processes if flags.averages_over_ranks(trainer.args) else 1
    book.window = Window(batches, ranks, trainer.args.device)


def _stands_down(trainer: Any, place: int | None) -> str | None:
    """Why this step is not ours to weigh; None where it is."""
    if place is None:
        return "its window is unknown, the microbatch did not come from get_batch_samples"
    if trainer.args.n_gpu > 1:
        return "DataParallel splits the microbatch"
    if getattr(trainer, "use_apex", False):
        return "apex scales the loss itself"
    parallelism = getattr(trainer.accelerator, "parallelism_config", None)
    if any(getattr(parallelism, f"{kind}_size", 1) > 1 for kind in ("cp", "sp")):
        return "context and sequence parallelism split the targets of a microbatch"
    return None


def get_train_dataloader(original: Function) -> Function:
    """4.45 reads one microbatch at a time: read its window ahead."""
    raise NotImplementedError
