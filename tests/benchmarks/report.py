"""`python -m tests.benchmarks.report NAME=TREE...`: measure how long a scan takes; README's tables and plot of it.

Each tree is scanned by gafixer for the first time, and then in pairs by gafixer and by ruff; behind a tree may follow
options of gafixer: `"NAME=TREE --ignore GA303"`. `--beside` adds other linters on one tree, `--hook` single files as
pre-commit has them scanned, `--mend` the fix of a long file, `--grow` the growth with the number of files. What was
measured is kept in figures.json, of which `--draw` makes the tables and the plot again.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click

from tests.benchmarks import measure, table

FIGURES = Path(__file__).with_name("figures.json")


def _named(word: str) -> tuple[str, str, tuple[str, ...]]:
    """The name of what is measured, its path, and options."""
    name, _, rest = word.partition("=")
    path, *options = shlex.split(rest)
    return name, path, tuple(options)


def _replaced(rows: list[dict[str, Any]], key: str, made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with those of one thing made anew."""
    return [*(row for row in rows if row[key] != made[0][key]), *made]


@click.command()
@click.argument("trees", nargs=-1, metavar="NAME=TREE...")
@click.option("--jobs", default="1,2", show_default=True, help="Processes of both.")
@click.option("--pairs", type=click.IntRange(min=1), default=5, show_default=True, help="Runs; the median counts.")
@click.option("--beside", metavar="NAME=TREE", help="Run flake8, TorchFix and Fixit on this tree, too.")
@click.option("--hook", multiple=True, metavar="NAME=FILE", help="Scan a file as pre-commit does.")
@click.option("--mend", metavar="FILE", help="Fix a loop at the end of a long file.")
@click.option("--grow", metavar="TREE", help="Make trees of more and more files of this one's.")
@click.option("--counts", default="1000,3000,10000,30000", show_default=True)
@click.option("--draw", is_flag=True, help="Write README's tables and plot.")
def main(
    trees: tuple[str, ...],
    jobs: str,
    pairs: int,
    beside: str | None,
    hook: tuple[str, ...],
    mend: str | None,
    grow: str | None,
    counts: str,
    draw: bool,
) -> None:
    """Measure what is named, keep it with what was measured before, and draw."""
    figures: dict[str, Any] = {"trees": [], "hooks": []}
    figures |= json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    figures["machine"] = measure.machine()
    for name, path, options in map(_named, trees):
        made = [measure.tree(name, path, options, int(number), pairs) for number in jobs.split(",")]
        figures["trees"] = _replaced(figures["trees"], "tree", made)
        _keep(figures)
    for name, path, _ in map(_named, (beside,) if beside else ()):
        figures |= {"beside_tree": name, "beside": measure.beside(path, pairs)}
        _keep(figures)
    for name, path, _ in map(_named, hook):
        figures["hooks"] = _replaced(figures["hooks"], "file", [measure.hook(name, path, pairs)])
        _keep(figures)
    if mend:
        figures["mending"] = measure.mending(mend, pairs)
        _keep(figures)
    if grow:
        figures["growth"] = measure.grown(grow, [int(count) for count in counts.split(",")], pairs)
        _keep(figures)
    if draw:
        table.draw(figures)


def _keep(figures: dict[str, Any]) -> None:
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
