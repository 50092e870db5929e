"""The scan of many files, shared with other processes when that pays. What is found does not depend on it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from gafixer.scan import NOTHING, Failure, Outcome, Scanner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future, ProcessPoolExecutor

    from gafixer.settings import Settings

__all__ = ["scan"]

#: Seconds that a process needs until it scans, the import of the analysis included.
_START = 0.4
#: Seconds of scanning after which the pace is known well enough to judge.
_TRIAL = 0.2
_CHUNK = 32


def scan(paths: Sequence[str], settings: Settings, jobs: int | None, tick: Callable[[int], None]) -> Iterator[Outcome]:
    """The outcomes of the files that came to something, in any order; `tick` is told of each file that is done.

    `jobs` is the number of processes, this one included; None: one, and all processors once that saves time.
    """
    scanner = Scanner(settings)
    most = jobs or _processors()
    started = time.perf_counter()
    for done, path in enumerate(paths):
        if most > 1 and done % _CHUNK == 0 and (jobs or _pays(done, len(paths), time.perf_counter() - started, most)):
            yield from _shared(paths[done:], settings, most, scanner, tick)
            return
        outcome = scanner.path(path)
        if outcome is not NOTHING:
            yield outcome
        tick(1)


def _processors() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _pays(done: int, files: int, seconds: float, most: int) -> bool:
    """Whether the files that are left are done sooner with the other processes, the wait for them included."""
    if seconds < _TRIAL:
        return False
    left = seconds / done * (files - done)
    return left * (1 - 1 / most) > 2 * _START


def _shared(
    paths: Sequence[str], settings: Settings, most: int, scanner: Scanner, tick: Callable[[int], None]
) -> Iterator[Outcome]:
    """Other processes take chunks from the front, this one from the back, until they meet.

    `tick` is told of them chunk by chunk.
    """
    size = max(1, min(_CHUNK, len(paths) // (most * 4)))
    chunks = [paths[start : start + size] for start in range(0, len(paths), size)]
    pool, futures = _pool(settings, most - 1, chunks)
    try:
        front = 0
        for back in reversed(range(len(chunks))):
            if futures[back].cancel():
                yield from filter(_says, map(scanner.path, chunks[back]))
                tick(len(chunks[back]))
            while front < back and futures[front].done():
                tick(len(chunks[front]))
                front += 1
        yield from _results({at: len(chunk) for at, chunk in zip(futures, chunks, strict=True) if not at.cancelled()})
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _results(sizes: dict[Future[list[Outcome]], int]) -> Iterator[Outcome]:
    """What the other processes found, and how many files are lost with a process that did not survive."""
    from concurrent.futures import as_completed
    from concurrent.futures.process import BrokenProcessPool

    lost = 0
    for future in as_completed(sizes):
        try:
            yield from future.result()
        except BrokenProcessPool:
            lost += sizes[future]
    if lost:
        yield Outcome(failure=Failure("", f"{lost} files not scanned: a process was ended; --jobs 1 needs no other"))


def _says(outcome: Outcome) -> bool:
    return outcome is not NOTHING


def _pool(
    settings: Settings, workers: int, chunks: Sequence[Sequence[str]]
) -> tuple[ProcessPoolExecutor, list[Future[list[Outcome]]]]:
    """A pool that has begun with the chunks.

    Processes are spawned, not forked: a fork copies locks that other threads hold, and is not to be had everywhere.
    """
    import signal
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # Until a new process can end quietly on Ctrl-C it shall ignore it; it starts with what is set here.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pool = ProcessPoolExecutor(workers, get_context("spawn"), _begin, (settings,))
        return pool, [pool.submit(_chunk, chunk) for chunk in chunks]
    finally:
        signal.signal(signal.SIGINT, before)


_scanner: Scanner | None = None


def _begin(settings: Settings) -> None:
    """In a new process: Ctrl-C ends it at once and without a word."""
    import signal

    global _scanner
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _scanner = Scanner(settings)


def _chunk(paths: Sequence[str]) -> list[Outcome]:
    assert _scanner is not None
    return [outcome for outcome in map(_scanner.path, paths) if outcome is not NOTHING]
