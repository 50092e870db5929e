"""Runs commands against each other: in turns, so that a slow minute of the machine meets both."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Command", "Comparison", "Run", "compare"]


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, what it needs in its environment, and how it exits when it has done its work."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    exits: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Run:
    """Wall-clock seconds, the peak memory in MB of the largest process, and the CPU seconds of all of them."""

    seconds: float
    megabytes: float
    work: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Paired runs of two commands: run i of one was measured beside run i of the other."""

    ours: tuple[Run, ...]
    theirs: tuple[Run, ...]

    @property
    def seconds(self) -> tuple[float, float]:
        """The medians."""
        return _median(self.ours), _median(self.theirs)

    @property
    def ratio(self) -> float:
        """The ratio of the medians: below 1, ours is faster."""
        ours, theirs = self.seconds
        return ours / theirs

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest ratio of a pair."""
        ratios = [one.seconds / other.seconds for one, other in zip(self.ours, self.theirs, strict=True)]
        return min(ratios), max(ratios)

    @property
    def work(self) -> float:
        """The ratio of the medians of CPU seconds."""
        ours, theirs = (statistics.median(run.work for run in runs) for runs in (self.ours, self.theirs))
        return ours / theirs

    @property
    def megabytes(self) -> float:
        """The most memory that ours took."""
        return max(run.megabytes for run in self.ours)


def _median(runs: Sequence[Run]) -> float:
    return statistics.median(run.seconds for run in runs)


def compare(ours: Command, theirs: Command, pairs: int, before: Callable[[], None] = lambda: None) -> Comparison:
    """Measure both `pairs` times, after one run of each that fills the file cache and is not counted.

    `before` makes ready what a run changes.

    Raises:
        RuntimeError: a command failed; a failed run has no time.
    """
    measured: tuple[list[Run], list[Run]] = ([], [])
    for pair in range(pairs + 1):
        for which in (0, 1) if pair % 2 == 0 else (1, 0):
            before()
            measured[which].append(run((ours, theirs)[which]))
    del measured[0][0], measured[1][0]
    return Comparison(tuple(measured[0]), tuple(measured[1]))


def run(command: Command) -> Run:
    """One run, its output thrown away.

    Raises:
        RuntimeError: it did not exit as it does when it has done its work.
    """
    # The users' Python writes bytecode once and reads it ever after.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    process = subprocess.Popen(
        command.arguments,
        env=environment | dict(command.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    with process.stderr as stream:
        complaint = stream.read().decode("utf-8", "replace")
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in command.exits:
        raise RuntimeError(f"{command.name}: exit {process.returncode}: {complaint.strip()[-500:]}")
    return Run(seconds, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime)
