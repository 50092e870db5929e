"""What is measured: a tree beside ruff, a file beside an import, a fix beside a parse. Rows are plain JSON values."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks import growth
from tests.benchmarks.timing import Command, Comparison, Run, compare, run
from tests.benchmarks.tools import AGAINST, found, hooked, mended, ours, parsed

__all__ = ["beside", "grown", "hook", "mending", "tree"]

#: A first scan is timed again as long as that takes no longer.
_PATIENCE = 20
_FAULTY = Path(__file__).parents[2] / "rules" / "GA101_mean_over_steps" / "bad.py"


def tree(name: str, path: str, options: tuple[str, ...], jobs: int, pairs: int) -> dict[str, Any]:
    """A first scan, and pairs of another scan and one by ruff; then both with files that are on the disk only."""
    paths = found(path)
    size = sum(Path(one).stat().st_size for one in paths)
    row: dict[str, Any] = {"tree": name, "files": len(paths), "megabytes": round(size / 1e6, 1), "jobs": jobs}
    ruff = AGAINST["ruff"](path, jobs)
    first = [run(ours(path, jobs, options))]
    first += [run(ours(path, jobs, options)) for _ in range(min(pairs, int(_PATIENCE // first[0].seconds)) - 1)]
    with tempfile.TemporaryDirectory() as scratch:
        again = ours(path, jobs, options, cache=scratch)
        row |= {"first": _figures(first), **_compared(compare(again, ruff, pairs), "again", "ruff")}
        row["again unread"] = _figures([_unread(again, paths) for _ in range(pairs)])
    row["ruff unread"] = _figures([_unread(ruff, paths) for _ in range(pairs)])
    return row


def hook(name: str, path: str, pairs: int) -> dict[str, Any]:
    """One changed file, of which no cache knows, as pre-commit has it scanned, beside the import of click."""
    return {"file": name, **_compared(compare(hooked(path), AGAINST["click"](path, None), pairs), "scan", "click")}


def mending(path: str, pairs: int) -> dict[str, Any]:
    """The fix of one faulty loop below all that a long file holds, beside a parse of that by libcst."""
    with tempfile.TemporaryDirectory() as scratch:
        long = Path(scratch) / "long.py"
        text = Path(path).read_text(encoding="utf-8") + "\n\n" + _FAULTY.read_text(encoding="utf-8")

        def again() -> None:
            long.write_text(text, encoding="utf-8")

        compared = compare(mended(str(long)), parsed(str(long)), pairs, before=again)
    return {"lines": text.count("\n"), **_compared(compared, "fix", "parse")}


def beside(path: str, pairs: int) -> dict[str, Any]:
    """Other linters of PyTorch code, and one of all Python, on a tree that gafixer scans for the first time."""
    linters = {linter: AGAINST[linter](path, None) for linter in ("flake8", "torchfix", "fixit")}
    with tempfile.TemporaryDirectory() as scratch:
        own = {"gafixer": ours(path, None), "gafixer again": ours(path, None, cache=scratch)}
        return {name: _figures(_repeated(command, pairs)) for name, command in {**own, **linters}.items()}


def grown(path: str, counts: list[int], times: int) -> dict[str, Any]:
    """The growth with the number of files: points, and the line that fits them best."""
    sources = found(path)
    points = [growth.measured(sources, count, times) for count in counts]
    slope, start = statistics.linear_regression([p.files for p in points], [p.seconds for p in points])
    rows = [
        {
            "files": p.files,
            "seconds": round(p.seconds, 2),
            "off": round(p.seconds - start - slope * p.files, 2),
            "megabytes": round(p.megabytes),
        }
        for p in points
    ]
    return {"slope": slope, "start": start, "points": rows}


def machine() -> str:
    """What it was measured on."""
    return f"{len(os.sched_getaffinity(0))} processors, Python {sys.version.split()[0]}"


def _compared(compared: Comparison, ours: str, theirs: str) -> dict[str, Any]:
    low, high = compared.spread
    figures = {ours: _figures(compared.ours), theirs: _figures(compared.theirs)}
    return {**figures, "ratio": round(compared.ratio, 2), "pairs": [round(low, 2), round(high, 2)]}


def _repeated(command: Command, times: int) -> list[Run]:
    run(command)  # it fills the file cache, and is not counted
    return [run(command) for _ in range(times)]


def _unread(command: Command, paths: list[str]) -> Run:
    """A run whose files are on the disk only."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    return run(command)


def _figures(runs: list[Run] | tuple[Run, ...]) -> dict[str, float]:
    return {
        "seconds": round(statistics.median(r.seconds for r in runs), 3),
        "work": round(statistics.median(r.work for r in runs), 3),
        "megabytes": round(max(r.megabytes for r in runs)),
    }
