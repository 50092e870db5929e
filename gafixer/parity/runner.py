"""Heads measured side by side, each in a process of its own: one that hangs or crashes costs nothing but itself."""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import resource
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from gafixer.parity.measure import Outcome, Trouble, measure_head, said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from gafixer.parity.heads import Head

__all__ = ["HeadReport", "run_heads"]

_POLL = 0.5  # seconds between looks at the clock
_PATIENCE = 10  # times the CPU seconds of a head that may pass on the clock: other work may share the machine


@dataclass(frozen=True, slots=True)
class HeadReport:
    """All outcomes of one head, and the CPU seconds they took; wall seconds where the process was ended."""

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
    seconds: float | None = None


def _quiet() -> None:
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)


def _child(head: Head, answers: Connection, work: Callable[[Head], Iterator[Outcome]], timeout: float) -> None:
    _quiet()
    # CPU seconds, so that a busy machine ends nothing that an idle one would let pass.
    seconds = math.ceil(timeout)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    try:
        for outcome in work(head):
            answers.send(outcome)
    except Exception as error:  # no head may take the others down; what it was is told
        answers.send(Outcome(head, "", None, Trouble.NOT_BUILT, said(error)))
    answers.send(time.process_time())
    answers.close()


def _start(head: Head, work: Callable[[Head], Iterator[Outcome]], timeout: float) -> _Running:
    # Forked, so that the imports of torch and transformers are paid once.
    context = multiprocessing.get_context("fork")
    answers, sending = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(head, sending, work, timeout), daemon=False)
    process.start()
    sending.close()
    return _Running(head, process, answers, time.monotonic(), [])


def _drain(running: _Running) -> bool:
    """Take what has come in; whether the child has closed its end."""
    try:
        while running.answers.poll():
            match running.answers.recv():
                case float() as seconds:
                    running.seconds = seconds
                case outcome:
                    running.outcomes.append(outcome)
    except EOFError:
        return True
    return False


def _finish(running: _Running, timeout: float, *, late: bool) -> HeadReport:
    if late:
        running.process.kill()
    running.process.join()
    running.answers.close()
    outcomes = list(running.outcomes)
    if reason := _cut_short(running.process.exitcode, timeout, late=late):
        outcomes.append(Outcome(running.head, "", None, Trouble.NOT_BUILT, reason))
    wall = time.monotonic() - running.started
    return HeadReport(running.head, tuple(outcomes), wall if running.seconds is None else running.seconds)


def _cut_short(code: int, timeout: float, *, late: bool) -> str:
    """Why the process ended before its work was done; nothing where it didn't."""
    match -code:
        case _ if late:
            return f"no answer in {timeout * _PATIENCE:g} s"
        case 0:
            return ""
        case signal.SIGXCPU:
            return f"not done in {timeout:g} s of CPU time"
        case number if number > 0:
            return f"the process died: {signal.Signals(number).name}"
        case _:
            return f"the process died: exit {code}"


def run_heads(
    heads: Sequence[Head],
    *,
    work: Callable[[Head], Iterator[Outcome]] = measure_head,
    jobs: int = 1,
    timeout: float = 120.0,
    until: float = math.inf,
    started: Callable[[Head], None] = lambda head: None,
) -> Iterator[HeadReport]:
    """Reports as heads finish, `jobs` at a time; a head that takes more than `timeout` CPU seconds is ended.

    At `until`, on the monotonic clock, it stops: what runs then, or hasn't begun, has no report.
    """
    queue, running = list(heads), list[_Running]()
    # Every training step collects garbage. What the parent imported, a million objects, is none: freezing it takes
    # four fifths off a head's time.
    gc.collect()
    gc.freeze()
    try:
        while (queue or running) and time.monotonic() < until:
            while queue and len(running) < jobs:
                started(queue[0])
                running.append(_start(queue.pop(0), work, timeout))
            wait([entry.answers for entry in running], timeout=_POLL)
            for entry in list(running):
                done = _drain(entry)
                late = not done and time.monotonic() - entry.started > timeout * _PATIENCE
                if done or late:
                    running.remove(entry)
                    yield _finish(entry, timeout, late=late)
    finally:
        gc.unfreeze()
        for entry in running:
            entry.process.kill()
            entry.process.join()
