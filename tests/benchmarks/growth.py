"""`python -m tests.benchmarks.growth TREE`: how the time of a scan grows with the number of files.

Trees of 1,000 to 30,000 files are made of TREE's files, over and over. Prints the seconds of each, the line that fits
them best, and how far each lies from it; `--plot` draws them.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click

from tests.benchmarks.timing import Command, run
from tests.benchmarks.tools import found

_FOLDER_SIZE = 100


@dataclass(frozen=True, slots=True)
class Point:
    """A tree's number of files, the median of its scans' seconds, the most memory in MB."""

    files: int
    seconds: float
    megabytes: float


def grown(sources: list[str], count: int, folder: Path) -> None:
    """A tree of `count` files, which are those of `sources` in turn."""
    for number, source in enumerate(itertools.islice(itertools.cycle(sources), count)):
        home = folder / str(number // _FOLDER_SIZE)
        if number % _FOLDER_SIZE == 0:
            home.mkdir(parents=True)
        (home / f"file_{number}.py").write_bytes(Path(source).read_bytes())


def measured(sources: list[str], count: int, times: int) -> Point:
    """Scan such a tree `times` times, after once that is not counted."""
    with tempfile.TemporaryDirectory() as scratch:
        grown(sources, count, Path(scratch) / "tree")
        arguments = (sys.executable, "-m", "gafixer", "scan", scratch, "--isolated", "--no-cache")
        command = Command("gafixer", arguments, {}, (0, 1))
        run(command)
        runs = [run(command) for _ in range(times)]
    return Point(count, statistics.median(r.seconds for r in runs), max(r.megabytes for r in runs))


def plot(points: list[Point], slope: float, start: float, path: Path) -> None:
    """Draw the points and the line."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    axes.plot([0, points[-1].files], [start, start + slope * points[-1].files], color="0.7", label="linear fit")
    axes.plot([p.files for p in points], [p.seconds for p in points], "o", label="gafixer scan")
    axes.set_xlabel("files")
    axes.set_ylabel("seconds")
    axes.legend(frameon=False)
    mpl.rcParams["svg.hashsalt"] = "gafixer"  # the same points are the same file
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


@click.command()
@click.argument("tree", type=click.Path(exists=True))
@click.option("--counts", default="1000,3000,10000,30000", show_default=True)
@click.option("--times", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--plot", "picture", type=click.Path(dir_okay=False, path_type=Path), help="An SVG or PNG to draw.")
def main(tree: str, counts: str, times: int, picture: Path | None) -> None:
    """Scan trees of more and more files made of TREE's."""
    sources = found(tree)
    click.echo(f"Python {sys.version.split()[0]}, {len(os.sched_getaffinity(0))} processors, {len(sources)} files")
    points = [measured(sources, int(count), times) for count in counts.split(",")]
    slope, start = statistics.linear_regression([p.files for p in points], [p.seconds for p in points])
    for p in points:
        off = p.seconds - (start + slope * p.files)
        click.echo(f"{p.files:>7,} files  {p.seconds:7.2f} s  {off:+6.2f} s off the line  {p.megabytes:4.0f} MB")
    click.echo(f"{start:.2f} s + {slope * 1e6:.0f} us a file")
    if picture is not None:
        plot(points, slope, start, picture)


if __name__ == "__main__":
    main()
