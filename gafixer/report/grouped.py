"""Findings under the file that they are in."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from gafixer.report.concise import SEVERITY_COLOUR, star
from gafixer.report.text import Style, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gafixer.findings import Finding
    from gafixer.report.names import Names

__all__ = ["render"]


def render(findings: Sequence[Finding], names: Names, style: Style) -> str:
    """A file's name, below it a line for each of its findings, then an empty line."""
    blocks = []
    for path, group in itertools.groupby(findings, key=lambda finding: finding.place.filename):
        lines = "\n".join(_lines(list(group), style))
        blocks.append(f"{style(printable(names.short(path)), bold=True)}:\n{lines}\n\n")
    return "".join(blocks)


def _lines(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    places = [_place(finding) for finding in findings]
    width = max(map(len, places))
    for finding, place in zip(findings, places, strict=True):
        code = style(finding.code, SEVERITY_COLOUR[finding.severity.value], bold=True)
        yield f"  {place.ljust(width)}  {code} {star(finding, style)}{printable(finding.message)}"


def _place(finding: Finding) -> str:
    start, cell = finding.place.span.start, finding.place.cell
    return f"{'' if cell is None else f'cell {cell}:'}{start.row}:{start.column}"
