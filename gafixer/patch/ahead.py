"""Releases up to 4.46 step every G microbatches, across epochs, and read one microbatch at a time.

Read their windows ahead.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import wrapt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["WindowLoader", "windows"]


class WindowLoader(wrapt.ObjectProxy[Any]):
    """A data loader that reads a window before it yields the window's first microbatch, and announces it.

    `announce(batches, carried)` gets the microbatches, and whether they continue the window announced before, which
    the end of an epoch had cut off.
    """

    def __init__(self, loader: Any, steps: int, announce: Callable[[list[Any], bool], None]) -> None:
        super().__init__(loader)
        self._self_steps = steps
        self._self_announce = announce
        self._self_taken = 0

    def __iter__(self) -> Iterator[Any]:
        for batches, carried in windows(self.__wrapped__, self._self_steps, self._self_taken):
            self._self_announce(batches, carried)
            for batch in batches:
                self._self_taken += 1
                yield batch

    def skipping(self, skip: Callable[..., Any], count: int) -> WindowLoader:
        """The same after the first `count` microbatches; the loops count from there."""
        return WindowLoader(skip(self.__wrapped__, count), self._self_steps, self._self_announce)


def windows(epoch: Iterable[Any], steps: int, taken: int) -> Iterator[tuple[list[Any], bool]]:
    """Cut an epoch into windows as these releases step: every `steps` microbatches since the start of training.

    `taken` microbatches came before this epoch. An epoch of no more than `steps` also steps at its end. Yields the
    microbatches of each window, and whether they continue one of the epoch before.
    """
    batches = iter(epoch)
    head = list(itertools.islice(batches, steps + 1))
    short = len(head) if len(head) <= steps else None
    carried = taken % steps != 0 and short is None
    window: list[Any] = []
    for place, batch in enumerate(itertools.chain(head, batches), start=1):
        window.append(batch)
        if (taken + place) % steps == 0 or place == short:
            yield window, carried
            window, carried = [], False
    if window:
        yield window, carried
