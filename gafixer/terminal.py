"""The two streams: findings on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from gafixer.findings import Severity
from gafixer.report.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import TextIO

    from rich.progress import Progress as RichProgress

    from gafixer.findings import Finding

__all__ = ["Progress", "added", "fixed", "has_colour", "known", "markdown", "say", "summary", "write"]

_PATIENCE = 1.0  # seconds before a scan is called long


def has_colour(stream: TextIO) -> bool:
    """Whether to paint: on a terminal, unless NO_COLOR is set, and always with FORCE_COLOR."""
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def write(text: str) -> None:
    """Put text on standard output, in whatever encoding that has."""
    _put(sys.stdout, text)


def say(text: str) -> None:
    """Put one line on standard error."""
    _put(sys.stderr, f"gafixer: {printable(_undecoded(text))}\n")


def _undecoded(text: str) -> str:
    return os.fsencode(text).decode("utf-8", "replace")


def _put(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        # Who read has gone, as `| head` does. What was found still decides the exit code, and neither we nor Python's
        # own flush at exit may complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def summary(shown: Sequence[Finding], hidden: int, known: int, files: int, seconds: float) -> None:
    """Say in one line what was found where."""
    counts = Counter(finding.severity for finding in shown)
    parts = [_count(counts[severity], severity.value) for severity in Severity if counts[severity]]
    found = f"found {', '.join(parts)}" if parts else "found nothing"
    others = [f"{known} in the baseline"] if known else []
    others += [f"{hidden} below the minimum severity"] if hidden else []
    more = f" ({', '.join(others)})" if others else ""
    say(f"{found}{more} in {_count(files, 'file')}, {seconds:.2f} s")


def fixed(findings: Sequence[Finding], files: int, *, done: bool) -> None:
    """Say in one line what was fixed, or would be."""
    if findings:
        did = "fixed" if done else "would fix"
        say(f"{did} {_count(len(findings), 'finding')} in {_count(files, 'file')}")


def added(findings: int, files: int) -> None:
    """Say in one line what comments silence from now on."""
    say(f"silenced {_count(findings, 'finding')} in {_count(files, 'file')}")


def known(path: str, now: int, before: int) -> None:
    """Say in one line what a baseline knows from now on."""
    say(f"{path}: {_count(now, 'known finding')}, before {before}")


def _count(number: int, word: str) -> str:
    plural = word if number == 1 or word == Severity.INFO.value else f"{word}s"
    return f"{number} {plural}"


def markdown(text: str) -> None:
    """Print Markdown: as it is, or laid out when a person looks at it."""
    if not sys.stdout.isatty():
        write(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


class Progress:
    """A bar on standard error for scans that take long, if that is a terminal."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._bar: RichProgress | None = None
        self._from = time.perf_counter() + _PATIENCE if sys.stderr.isatty() else None

    def __enter__(self) -> Progress:
        return self

    def tick(self, files: int) -> None:
        """So many more files are scanned."""
        self._done += files
        if self._from is None or time.perf_counter() < self._from:
            return
        if self._bar is None:
            self._bar = _bar(self._total)
        self._bar.update(self._bar.task_ids[0], completed=self._done)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()


def _bar(total: int) -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("scanning"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("scan", total=total)
    bar.start()
    return bar
