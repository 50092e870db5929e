"""`python -m tests.benchmarks TREE...`: a table of how long a scan takes, beside another program on the same files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from gafixer import files
from tests.benchmarks.timing import Comparison, compare
from tests.benchmarks.tools import AGAINST, found, ours

_HEAD = ("tree", "files", "MB", "gafixer s", "other s", "ratio", "pairs from", "to", "CPU ratio", "peak MB")


def _row(tree: str, compared: Comparison) -> tuple[str, ...]:
    paths = found(tree, _complain)
    size = sum(Path(path).stat().st_size for path in paths) / 1e6
    mine, theirs = compared.seconds
    low, high = compared.spread
    figures = (f"{size:.1f}", f"{mine:.3f}", f"{theirs:.3f}", f"{compared.ratio:.2f}", f"{low:.2f}", f"{high:.2f}")
    work = f"{compared.work:.2f}"
    return (Path(tree).resolve().name, str(len(paths)), *figures, work, f"{compared.megabytes:.0f}")


def _complain(folder: str, error: OSError) -> None:
    click.echo(f"{folder}: {files.reason(error)}", err=True)


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(_HEAD, *rows, strict=True)]
    lines = [_HEAD, tuple("-" * width for width in widths), *rows]
    return "\n".join(
        "| "
        + " | ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(pairs))
        + " |"
        for pairs in (zip(line, widths, strict=True) for line in lines)
    )


@click.command()
@click.argument("trees", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--against", type=click.Choice(list(AGAINST)), default="ruff", show_default=True)
@click.option("--pairs", type=click.IntRange(min=1), default=7, show_default=True, help="Runs of each on each tree.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes of both.  [default: their own]")
@click.option("--option", "extra", multiple=True, metavar="WORD", help="One more word of gafixer's command line.")
def main(trees: tuple[str, ...], against: str, pairs: int, jobs: int | None, extra: tuple[str, ...]) -> None:
    """Time `gafixer scan` on each TREE against another linter, or against importing click.

    ruff and flake8 look for what pyflakes finds, without a cache; TorchFix and Fixit run with their defaults. Both run
    in turns with a warm file cache. The ratio is that of the medians: below 1, gafixer is faster. The CPU ratio counts
    the seconds of all processors and processes, which a busy machine changes little.
    """
    click.echo(f"Python {sys.version.split()[0]}, {len(os.sched_getaffinity(0))} processors, {pairs} pairs, {against}")
    rows = []
    for tree in trees:
        try:
            compared = compare(ours(tree, jobs, extra), AGAINST[against](tree, jobs), pairs)
        except RuntimeError as error:
            raise click.ClickException(str(error)) from error
        rows.append(_row(tree, compared))
    click.echo(_table(rows))


if __name__ == "__main__":
    main()
