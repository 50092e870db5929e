"""The wrappers around `transformers.Trainer`. Each takes the original function and returns what stands in its place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from gafixer.patch import flags, messages, plain
from gafixer.patch.ahead import WindowLoader
from gafixer.patch.calls import Shadows
from gafixer.patch.step import Book, Step
from gafixer.patch.window import Window

__all__ = ["compute_loss", "get_batch_samples", "prediction_step", "skip_first_batches", "training_step"]

UNKNOWN_WINDOW = "its window is unknown, the microbatch did not come from get_batch_samples"

_books: WeakKeyDictionary[Any, Book] = WeakKeyDictionary()

Function = Callable[..., Any]


def get_batch_samples(original: Function) -> Function:
    """Keep the window. The steps of an epoch's end are counted as the loop counts them, in 4.46 and 4.47 too."""

    @functools.wraps(original)
    def wrapper(self: Any, epoch_iterator: Any, num_batches: int, *args: Any, **kwargs: Any) -> Any:
        num_batches = max(num_batches, self.args.gradient_accumulation_steps)
        batches, count = original(self, epoch_iterator, num_batches, *args, **kwargs)
        if not _book(self).reads_ahead:
            _open_window(self, batches)
        return batches, count

    return wrapper


def _inner_training_loop(original: Function) -> Function:
    """Read windows ahead where a release's loop doesn't, or steps elsewhere than at its windows' ends."""

    @functools.wraps(original)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        book = _book(self)
        load = self.get_train_dataloader

        def get_train_dataloader() -> Any:
            return WindowLoader(load(), self.args.gradient_accumulation_steps, functools.partial(_open_window, self))

        with Shadows() as shadows:
            shadows.put(self, "get_train_dataloader", get_train_dataloader)
            book.reads_ahead = True
            try:
                return original(self, *args, **kwargs)
            finally:
                book.reads_ahead = False

    return wrapper


def skip_first_batches(original: Function) -> Function:
    """A resumed epoch is read ahead, too."""

    @functools.wraps(original)
    def wrapper(dataloader: Any, num_batches: int = 0) -> Any:
        if isinstance(dataloader, WindowLoader):
            return dataloader.skipping(original, num_batches)
        return original(dataloader, num_batches)

    return wrapper


def training_step(original: Function) -> Function:
    """Weigh the loss of the step and report the window's true loss."""

    @functools.wraps(original)
    def wrapper(self: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        book = _book(self)
        found = book.find(inputs)
        if found is None or book.refusal is not None:
            messages.once(self, f"left as it is: {book.refusal or UNKNOWN_WINDOW}")
            return original(self, model, inputs, *args, **kwargs)
        with plain.bypassed(), Step(self, book, *found) as step:
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


def _book(trainer: Any) -> Book:
    book = _books.get(trainer)
    if book is None:
        book = _books[trainer] = Book()
    return book


def _open_window(trainer: Any, batches: list[Any], carried: bool = False) -> None:
    """Begin a window of these microbatches on this rank, or go on with the one before."""
    book = _book(trainer)
    ranks = trainer.accelerator.num_processes if flags.averages_over_ranks(trainer.args) else 1
    before = book.windows[-1] if carried and book.windows else None
    window = Window(batches, ranks, trainer.args.device, before)
    book.windows = [window] if not book.reads_ahead else [*book.windows[-2:], window]
    book.refusal = _refusal(trainer)


def _refusal(trainer: Any) -> str | None:
    """Why the steps of a window are not ours to weigh; None where they are."""
    if trainer.args.n_gpu > 1:
        return "DataParallel splits the microbatch"
    if getattr(trainer, "use_apex", False):
        return "apex scales the loss itself"
    parallelism = getattr(trainer.accelerator, "parallelism_config", None)
    if any(getattr(parallelism, f"{kind}_size", 1) > 1 for kind in ("cp", "sp")):
        return "context and sequence parallelism split the targets of a microbatch"
    return None
