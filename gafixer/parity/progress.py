"""What runs now, on standard error, when a person looks at it."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from gafixer.parity.heads import Head

__all__ = ["Watch"]


class Watch:
    """A bar with the names of the heads that run. Silent where standard error is no terminal."""

    def __init__(self, total: int) -> None:
        console = Console(stderr=True)
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty())
        self._task = self._bar.add_task("", total=total)
        self._running: list[str] = []

    def __enter__(self) -> Watch:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def started(self, head: Head) -> None:
        """A head began."""
        self._running.append(head.name)
        self._bar.update(self._task, description=", ".join(self._running))

    def finished(self, head: Head) -> None:
        """A head ended."""
        self._running.remove(head.name)
        self._bar.update(self._task, advance=1, description=", ".join(self._running))

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Out of the way while standard output is written to, which may be the same terminal."""
        self._bar.stop()
        yield
        self._bar.start()
