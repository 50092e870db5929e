"""`python -m tests.benchmarks TREE...`: a table of how long a scan takes, beside another program on the same files."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from gafixer import files
from gafixer.files import DEFAULT_EXCLUDE, Glob
from tests.benchmarks.timing import Command, Comparison, compare

_HEAD = ("tree", "files", "MB", "gafixer s", "other s", "ratio", "pairs from", "to", "peak MB")


def _ours(tree: str, jobs: int | None, extra: tuple[str, ...]) -> Command:
    settings = ("--isolated", "--exit-zero", "--output-format", "json")
    processes = () if jobs is None else ("--jobs", str(jobs))
    return Command("gafixer", (sys.executable, "-m", "gafixer", "scan", tree, *settings, *processes, *extra), {})


def _program(name: str) -> str:
    """Of this environment, or the one on the PATH."""
    beside = Path(sys.executable).with_name(name)
    program = str(beside) if beside.exists() else shutil.which(name)
    if program is None:
        raise click.ClickException(f"{name} is not installed: pip install {name}")
    return program


def _ruff(tree: str, jobs: int | None) -> Command:
    arguments = (_program("ruff"), "check", "--select", "F", "--no-cache", "--isolated", "--exit-zero", "--quiet", tree)
    return Command("ruff", arguments, {} if jobs is None else {"RAYON_NUM_THREADS": str(jobs)})


def _flake8(tree: str, jobs: int | None) -> Command:
    arguments = (_program("flake8"), "--isolated", "--select", "F", "--exit-zero", "--jobs", str(jobs or "auto"), tree)
    return Command("flake8", arguments, {})


def _torchfix(tree: str, jobs: int | None) -> Command:
    processes = () if jobs is None else ("--jobs", str(jobs))
    return Command("torchfix", (_program("torchfix"), *processes, tree), {}, (0, 1))


def _fixit(tree: str, jobs: int | None) -> Command:
    """It has no option for the number of its processes; 4, 8 are its codes for findings and for files it can't read."""
    return Command("fixit", (_program("fixit"), "--quiet", "lint", tree), {}, (0, 1, 4, 5, 8, 12))


def _click(tree: str, jobs: int | None) -> Command:
    return Command("click", (sys.executable, "-c", "import click"), {})


_AGAINST = {"ruff": _ruff, "flake8": _flake8, "torchfix": _torchfix, "fixit": _fixit, "click": _click}


def _row(tree: str, compared: Comparison) -> tuple[str, ...]:
    excluded = tuple(map(Glob, DEFAULT_EXCLUDE))
    found = list(files.find([tree], lambda folder: excluded, _complain))
    size = sum(Path(path).stat().st_size for path in found) / 1e6
    ours, theirs = compared.seconds
    low, high = compared.spread
    figures = (f"{size:.1f}", f"{ours:.3f}", f"{theirs:.3f}", f"{compared.ratio:.2f}", f"{low:.2f}", f"{high:.2f}")
    return (Path(tree).resolve().name, str(len(found)), *figures, f"{compared.megabytes:.0f}")


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
@click.option("--against", type=click.Choice(list(_AGAINST)), default="ruff", show_default=True)
@click.option("--pairs", type=click.IntRange(min=1), default=7, show_default=True, help="Runs of each on each tree.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes of both.  [default: their own]")
@click.option("--option", "extra", multiple=True, metavar="WORD", help="One more word of gafixer's command line.")
def main(trees: tuple[str, ...], against: str, pairs: int, jobs: int | None, extra: tuple[str, ...]) -> None:
    """Time `gafixer scan` on each TREE against another linter, or against importing click.

    ruff and flake8 look for what pyflakes finds, without a cache; TorchFix and Fixit run with their defaults. Both run
    in turns with a warm file cache. The ratio is that of the medians: below 1, gafixer is faster.
    """
    click.echo(f"Python {sys.version.split()[0]}, {len(os.sched_getaffinity(0))} processors, {pairs} pairs, {against}")
    rows = []
    for tree in trees:
        try:
            compared = compare(_ours(tree, jobs, extra), _AGAINST[against](tree, jobs), pairs)
        except RuntimeError as error:
            raise click.ClickException(str(error)) from error
        rows.append(_row(tree, compared))
    click.echo(_table(rows))


if __name__ == "__main__":
    main()
