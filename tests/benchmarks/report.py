"""`python -m tests.benchmarks.report NAME=TREE...`: measure how long a scan takes; README's table and plot of it.

Each tree is scanned by ruff, by gafixer for the first time, and by gafixer again; `--beside` adds other linters on one
tree, `--grow` the growth with the number of files. What was measured is kept in figures.json, of which `--draw` makes
the table and the plot again.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from gafixer import files
from gafixer.files import DEFAULT_EXCLUDE, Glob
from tests.benchmarks import growth
from tests.benchmarks.timing import Command, Run, run
from tests.benchmarks.tools import AGAINST, ours

FIGURES = Path(__file__).with_name("figures.json")
README = Path(__file__).parents[2] / "README.md"
PLOT = README.parent / ".github" / "readme" / "growth.svg"
_MARK, _END = "<!-- speed: measured by `python -m tests.benchmarks.report` -->\n", "<!-- /speed -->"


def found(tree: str) -> list[str]:
    """The files of a tree that are scanned."""
    excluded = tuple(map(Glob, DEFAULT_EXCLUDE))
    return list(files.find([tree], lambda folder: excluded, lambda folder, error: None))


def measured(name: str, tree: str, jobs: int, times: int) -> dict[str, Any]:
    """A row: seconds, CPU seconds and memory of ruff, of a first scan and of another one."""
    paths = found(tree)
    size = sum(Path(path).stat().st_size for path in paths)
    row: dict[str, Any] = {"tree": name, "files": len(paths), "megabytes": round(size / 1e6, 1), "jobs": jobs}
    ruff = AGAINST["ruff"](tree, jobs)
    row["ruff"] = _figures(_repeated(ruff, times))
    row["first"] = _figures(_repeated(ours(tree, jobs), 1 if row["ruff"]["seconds"] * times > 1 else times))
    with tempfile.TemporaryDirectory() as scratch:
        run(ours(tree, jobs, cache=scratch))
        row["again"] = _figures(_repeated(ours(tree, jobs, cache=scratch), times))
        row["unread"] = _figures([_unread(ours(tree, jobs, cache=scratch), paths) for _ in range(times)])
    row["ruff unread"] = _figures([_unread(ruff, paths) for _ in range(times)])
    return row


def _repeated(command: Command, times: int) -> list[Run]:
    if times > 1:
        run(command)  # it fills the file cache, and is not counted
    return [run(command) for _ in range(times)]


def _unread(command: Command, paths: list[str]) -> Run:
    """A run whose files are on the disk only."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    return run(command)


def _figures(runs: list[Run]) -> dict[str, float]:
    return {
        "seconds": round(statistics.median(r.seconds for r in runs), 3),
        "work": round(statistics.median(r.work for r in runs), 3),
        "megabytes": round(max(r.megabytes for r in runs)),
    }


def grown(tree: str, counts: list[int], times: int) -> dict[str, Any]:
    """The growth with the number of files: points, and the line that fits them best."""
    sources = found(tree)
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


# -- README ------------------------------------------------------------------------------------------------------------


def table(figures: dict[str, Any]) -> str:
    """What was measured, as Markdown."""
    head = "| tree | files | MB | jobs | ruff | first scan | again | peak MB |\n|---|--:|--:|--:|--:|--:|--:|--:|"
    rows = [_row(row) for row in figures["trees"]]
    beside = [
        f"| {name} | {one['seconds']:.1f} s | {one['seconds'] / other['seconds']:.0f} |"
        for other in [figures["beside"]["gafixer"]]
        for name, one in figures["beside"].items()
        if name != "gafixer"
    ]
    theirs = f"| on the {figures['beside_tree']} | seconds | times a first scan of gafixer |\n|---|--:|--:|"
    line = figures["growth"]
    off = max(abs(point["off"]) for point in line["points"])
    most = line["points"][-1]
    grows = (
        f"Up to {most['files']:,} files the time of a scan without a cache grows in a line: {line['start']:.1f} s and "
        f"{line['slope'] * 1e6:.0f} µs for each file, {off:.1f} s off at most; {most['megabytes']} MB at the end."
    )
    picture = f"![Seconds over files: points near a line](.github/readme/{PLOT.name})"
    how = "gafixer writes JSON with every fix; in parentheses the ratio to ruff (`check --select F --no-cache`)."
    where = f"{figures['machine']}; {how}"
    return "\n".join([where, "", head, *rows, "", theirs, *beside, "", grows, "", picture, ""])


def _row(row: dict[str, Any]) -> str:
    ruff = row["ruff"]["seconds"]
    first, again = (f"{row[key]['seconds']:.2f} s ({row[key]['seconds'] / ruff:.2f})" for key in ("first", "again"))
    most = max(row["first"]["megabytes"], row["again"]["megabytes"])
    return (
        f"| {row['tree']} | {row['files']:,} | {row['megabytes']} | {row['jobs']} | {ruff:.2f} s | {first} | {again} "
        f"| {most:.0f} |"
    )


def filled(readme: str, text: str) -> str:
    """README with the part between its marks."""
    start = readme.index(_MARK) + len(_MARK)
    return f"{readme[:start]}\n{text}\n{readme[readme.index(_END) :]}"


def _draw(figures: dict[str, Any]) -> None:
    line = figures["growth"]
    points = [growth.Point(p["files"], p["seconds"], p["megabytes"]) for p in line["points"]]
    growth.plot(points, line["slope"], line["start"], PLOT)
    README.write_text(filled(README.read_text(encoding="utf-8"), table(figures)), encoding="utf-8")


def _pairs(words: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(name, tree) for name, _, tree in (word.partition("=") for word in words)]


@click.command()
@click.argument("trees", nargs=-1, metavar="NAME=TREE...")
@click.option("--jobs", default="1,2", show_default=True, help="Processes of both.")
@click.option("--times", type=click.IntRange(min=1), default=3, show_default=True, help="Runs; the median counts.")
@click.option("--beside", metavar="NAME=TREE", help="Run flake8, TorchFix and Fixit on this tree, too.")
@click.option("--grow", metavar="TREE", help="Make trees of more and more files of this one's.")
@click.option("--counts", default="1000,3000,10000,30000", show_default=True)
@click.option("--draw", is_flag=True, help="Write README's table and plot.")
def main(
    trees: tuple[str, ...], jobs: str, times: int, beside: str | None, grow: str | None, counts: str, draw: bool
) -> None:
    """Measure what is named, keep it with what was measured before, and draw."""
    figures: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {"trees": []}
    figures["machine"] = f"{len(os.sched_getaffinity(0))} processors, Python {sys.version.split()[0]}"
    for name, tree in _pairs(trees):
        kept = [row for row in figures["trees"] if row["tree"] != name]
        figures["trees"] = [*kept, *(measured(name, tree, int(number), times) for number in jobs.split(","))]
        _keep(figures)
    for name, tree in _pairs((beside,) if beside else ()):
        figures["beside_tree"] = name
        linters = {linter: AGAINST[linter](tree, None) for linter in ("flake8", "torchfix", "fixit")}
        figures["beside"] = {
            linter: _figures(_repeated(command, times))
            for linter, command in {"gafixer": ours(tree, None), **linters}.items()
        }
        _keep(figures)
    if grow:
        figures["growth"] = grown(grow, [int(count) for count in counts.split(",")], times)
        _keep(figures)
    if draw:
        _draw(figures)


def _keep(figures: dict[str, Any]) -> None:
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
