"""The scan of many files, shared with other processes when that pays. What is found does not depend on it."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer.scan import NOTHING, Failure, Outcome, Scanner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from gafixer.findings import Detail
    from gafixer.settings import Hierarchy

__all__ = ["scan"]

#: Seconds that a process needs until it scans, the import of the analysis included.
_START = 0.4
#: Seconds of scanning after which the pace is known well enough to judge.
_TRIAL = 0.2
_CHUNK = 32
#: Objects that may pile up before those are looked for that only hold each other. The trees of a scan do not, and a
#: look at all of them, time and again, is a sixth of its time.
_GARBAGE = (100_000, 50, 50)


def scan(paths: Sequence[str], scanner: Scanner, jobs: int | None, tick: Callable[[int], None]) -> Iterator[Outcome]:
    """The outcomes of the files that came to something, in any order; `tick` is told of each file that is done.

    `jobs` is the number of processes, this one included; None: one, and all processors once that saves time.
    """
    most = jobs or _processors()
    gc.set_threshold(*_GARBAGE)
    started = time.perf_counter()
    for done, path in enumerate(paths):
        if most > 1 and (jobs or _pays(done, len(paths), time.perf_counter() - started, most)):
            yield from _shared(paths[done:], most, scanner, tick)
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
    if seconds < _TRIAL or done == 0:
        return False
    left = seconds / done * (files - done)
    return left * (1 - 1 / most) > 2 * _START


def _shared(paths: Sequence[str], most: int, scanner: Scanner, tick: Callable[[int], None]) -> Iterator[Outcome]:
    """Other processes take chunks from the front, this one from the back, until they meet."""
    size = max(1, min(_CHUNK, len(paths) // (most * 4)))
    team = _Team(deque(paths[start : start + size] for start in range(0, len(paths), size)), scanner, tick)
    try:
        team.hire(most - 1)
        while team.chunks or team.busy:
            yield from team.collect(wait=not team.chunks)
            if team.chunks:
                chunk = team.chunks.pop()
                yield from filter(_says, map(scanner.path, chunk))
                tick(len(chunk))
    finally:
        team.dismiss()


@dataclass(slots=True)
class _Worker:
    """Another process, and the chunks that it was given and has not answered yet."""

    process: BaseProcess
    line: Connection
    given: deque[Sequence[str]] = field(default_factory=deque)


class _Team:
    """The other processes.

    A process that dies takes no file with it silently: what it was given goes out again file by file, so that the
    one which ends processes is named. Executors of the standard library lose track when a process dies, or hang.
    """

    def __init__(self, chunks: deque[Sequence[str]], scanner: Scanner, tick: Callable[[int], None]) -> None:
        self.chunks = chunks
        self._suspects: deque[Sequence[str]] = deque()
        self._scanner = scanner
        self._tick = tick
        self._workers: list[_Worker] = []

    @property
    def busy(self) -> bool:
        """Whether an answer is outstanding."""
        return bool(self._suspects) or any(worker.given for worker in self._workers)

    def hire(self, number: int) -> None:
        """Start processes and give them work.

        They are spawned, not forked: a fork copies locks that other threads hold, and is not to be had everywhere.
        """
        import signal
        from multiprocessing import get_context

        context = get_context("spawn")
        # Until a new process can end quietly on Ctrl-C it shall ignore it; it starts with what is set here.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with _away() as here:
                for _ in range(number):
                    ours, theirs = context.Pipe()
                    told = (theirs, here, *self._scanner.made_of)
                    process = context.Process(target=_work, args=told, daemon=True)
                    process.start()
                    theirs.close()
                    self._workers.append(_Worker(process, ours))
        finally:
            signal.signal(signal.SIGINT, before)
        for worker in self._workers:
            self._give(worker)

    def _give(self, worker: _Worker) -> None:
        """Two chunks at a time, so that a process never waits for us; a suspect file alone."""
        while len(worker.given) < 2 and (queue := self._suspects or self.chunks):
            if worker.given and queue is self._suspects:
                return
            chunk = queue.popleft()
            worker.given.append(chunk)
            try:
                worker.line.send(chunk)
            except OSError:  # it is dead; collecting its answer tells
                return

    def collect(self, *, wait: bool) -> Iterator[Outcome]:
        """The answers that are there; with `wait`, at least one."""
        from multiprocessing.connection import wait as ready

        lines = ready([worker.line for worker in self._workers if worker.given], None if wait else 0)
        for worker in [worker for worker in self._workers if worker.line in lines]:
            try:
                outcomes: list[Outcome] = worker.line.recv()
            except (EOFError, OSError):
                yield from self._bury(worker)
                continue
            yield from outcomes
            self._tick(len(worker.given.popleft()))
            self._give(worker)

    def _bury(self, worker: _Worker) -> Iterator[Outcome]:
        self._workers.remove(worker)
        worker.line.close()
        worker.process.join()
        first = worker.given.popleft()
        if len(first) == 1:
            self._tick(1)
            yield Outcome(failure=Failure(first[0], "the process that scanned it was ended"))
        else:
            self._suspects.extend([path] for path in first)
        self.chunks.extendleft(reversed(worker.given))
        self.hire(1)

    def dismiss(self) -> None:
        """End the processes, whatever they do."""
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
            worker.line.close()


@contextlib.contextmanager
def _away() -> Iterator[Path]:
    """Somewhere else for a moment; gives the working directory.

    A new Python looks for its first modules in the folder that it starts in. Where somebody's repository is scanned,
    that would run their `multiprocessing.py`.
    """
    here = Path.cwd()
    os.chdir(Path(os.__file__).parent)  # Python's own
    try:
        yield here
    finally:
        os.chdir(here)


def _says(outcome: Outcome) -> bool:
    return outcome is not NOTHING


def _work(
    line: Connection, here: Path, settings: Hierarchy, scanned: Sequence[str], detail: Detail, records: bool
) -> None:
    """Another process: chunks in, what they came to out. Ctrl-C ends it at once and without a word."""
    import signal

    os.chdir(here)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(*_GARBAGE)
    scanner = Scanner(settings, scanned, detail, records=records)
    while True:
        try:
            chunk: Sequence[str] = line.recv()
        except EOFError:  # the first process has gone
            return
        line.send([outcome for outcome in map(scanner.path, chunk) if outcome is not NOTHING])
