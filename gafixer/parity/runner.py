"""Heads measured side by side, each in a process of its own: one that hangs or crashes costs nothing but itself."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from gafixer.parity.measure import Outcome, Trouble, measure_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from gafixer.parity.heads import Head

__all__ = ["HeadReport", "run_heads"]

_POLL = 0.5  # seconds between looks at the clock


@dataclass(frozen=True, slots=True)
class HeadReport:
    """All outcomes of one head, and the seconds they took."""

    head: Head
    outcomes: tuple[Outcome, ...]
    seconds: float

    @property
    def built(self) -> bool:
        """Whether at least one variant ran by itself, without a trainer."""
        return any(outcome.trouble is not Trouble.NOT_BUILT for outcome in self.outcomes)


@dataclass(slots=True)
class _Running:
    head: Head
    process: Any
    answers: Connection
    started: float
    outcomes: list[Outcome]


def _quiet() -> None:
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)


def _child(head: Head, answers: Connection, work: Callable[[Head], Iterator[Outcome]]) -> None:
    _quiet()
    for outcome in work(head):
        answers.send(outcome)
    answers.close()


def _start(head: Head, work: Callable[[Head], Iterator[Outcome]]) -> _Running:
    # Forked, so that the imports of torch and transformers are paid once.
    context = multiprocessing.get_context("fork")
    answers, sending = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(head, sending, work), daemon=False)
    process.start()
    sending.close()
    return _Running(head, process, answers, time.monotonic(), [])


def _drain(running: _Running) -> bool:
    """Take what has come in; whether the child has closed its end."""
    try:
        while running.answers.poll():
            running.outcomes.append(running.answers.recv())
    except EOFError:
        return True
    return False


def _finish(running: _Running, reason: str) -> HeadReport:
    if running.process.is_alive() and reason:
        running.process.kill()
    running.process.join()
    running.answers.close()
    code = running.process.exitcode
    if not reason and code:
        reason = f"the process died: {signal.Signals(-code).name if code < 0 else f'exit {code}'}"
    outcomes = list(running.outcomes)
    if reason:
        outcomes.append(Outcome(running.head, "", None, Trouble.NOT_BUILT, reason))
    return HeadReport(running.head, tuple(outcomes), time.monotonic() - running.started)


def run_heads(
    heads: Sequence[Head],
    *,
    work: Callable[[Head], Iterator[Outcome]] = measure_head,
    jobs: int = 1,
    timeout: float = 120.0,
    started: Callable[[Head], None] = lambda head: None,
) -> Iterator[HeadReport]:
    """Reports as heads finish, `jobs` at a time; a head that takes longer than `timeout` seconds is ended."""
    queue, running = list(heads), list[_Running]()
    try:
        while queue or running:
            while queue and len(running) < jobs:
                started(queue[0])
                running.append(_start(queue.pop(0), work))
            wait([entry.answers for entry in running], timeout=_POLL)
            for entry in list(running):
                done = _drain(entry)
                late = time.monotonic() - entry.started > timeout
                if done or late:
                    running.remove(entry)
                    yield _finish(entry, "" if done else f"no answer in {timeout:g} s")
    finally:
        for entry in running:
            entry.process.kill()
            entry.process.join()
