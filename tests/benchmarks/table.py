"""What was measured, as README shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.benchmarks import growth

__all__ = ["draw", "table"]

README = Path(__file__).parents[2] / "README.md"
PLOT = README.parent / ".github" / "readme" / "growth.svg"
_MARK, _END = "<!-- speed: measured by `python -m tests.benchmarks.report` -->\n", "<!-- /speed -->"


def draw(figures: dict[str, Any]) -> None:
    """Write README's table and plot."""
    line = figures["growth"]
    points = [growth.Point(p["files"], p["seconds"], p["megabytes"]) for p in line["points"]]
    growth.plot(points, line["slope"], line["start"], PLOT)
    readme = README.read_text(encoding="utf-8")
    start = readme.index(_MARK) + len(_MARK)
    README.write_text(f"{readme[:start]}\n{table(figures)}\n{readme[readme.index(_END) :]}", encoding="utf-8")


def table(figures: dict[str, Any]) -> str:
    """What was measured, as Markdown."""
    picture = f"![Seconds over files: points near a line](.github/readme/{PLOT.name})"
    parts = (*_trees(figures), "", *_beside(figures), "", *_small(figures), "", _growth(figures["growth"]), "", picture)
    return "\n".join((*parts, ""))


def _trees(figures: dict[str, Any]) -> list[str]:
    how = "in parentheses the ratio to ruff (`check --select F --no-cache`), with which second scans took turns."
    head = "| tree | files | MB | jobs | ruff | first scan | again | peak MB |"
    rows = [
        f"| {row['tree']} | {row['files']:,} | {row['megabytes']} | {row['jobs']} | {row['ruff']['seconds']:.2f} s "
        f"| {row['first']['seconds']:.1f} s ({row['first']['seconds'] / row['ruff']['seconds']:.0f}) "
        f"| {row['again']['seconds']:.2f} s ({row['ratio']:.2f}) "
        f"| {max(row['first']['megabytes'], row['again']['megabytes']):.0f} |"
        for row in figures["trees"]
    ]
    return [f"{figures['machine']}; {how}", "", head, "|---|--:|--:|--:|--:|--:|--:|--:|", *rows]


def _beside(figures: dict[str, Any]) -> list[str]:
    first, again = figures["beside"]["gafixer"]["seconds"], figures["beside"]["gafixer again"]["seconds"]
    rows = [
        f"| {name} | {one['seconds']:.1f} s | {one['seconds'] / first:.0f} | {one['seconds'] / again:.0f} |"
        for name, one in figures["beside"].items()
        if not name.startswith("gafixer")
    ]
    return [
        f"| on the {figures['beside_tree']} | time | times a first scan | times a second one |",
        "|---|--:|--:|--:|",
        *rows,
    ]


def _small(figures: dict[str, Any]) -> list[str]:
    """One file: the scan of it, and a fix in it."""
    rows = [
        f"| {row['file']} | {row['scan']['seconds']:.2f} s | {row['ratio']:.1f} times `import click` |"
        for row in figures["hooks"]
    ]
    mending = figures["mending"]
    lines, fix = f"fix of {mending['lines']:,} lines", f"{mending['fix']['seconds']:.2f} s"
    return [
        "| one file | time | |",
        "|---|--:|---|",
        *rows,
        f"| {lines} | {fix} | {mending['ratio']:.1f} times libcst's parse of it |",
    ]


def _growth(line: dict[str, Any]) -> str:
    off = max(abs(point["off"]) for point in line["points"])
    most = line["points"][-1]
    return (
        f"Up to {most['files']:,} files the time of a scan without a cache grows in a line: {line['start']:.1f} s and "
        f"{line['slope'] * 1e6:.0f} µs for each file, {off:.1f} s off at most; {most['megabytes']} MB at the end."
    )
