"""The format for people: each finding with its code, all its labelled places, and how to mend it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.report.concise import SEVERITY_COLOUR, place, star
from gafixer.report.text import Style, columns, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gafixer.findings import Finding, Place, Related, Span
    from gafixer.report.names import Names

__all__ = ["render"]

_WIDEST = 160  # columns of code; what is further from a mark is cut
_GAP = "..."
_BEFORE = 40  # columns kept before the first mark of a line that is cut


@dataclass(frozen=True, slots=True)
class _Mark:
    """A span to underline, and what to say of it."""

    span: Span
    label: str
    primary: bool


def render(findings: Sequence[Finding], names: Names, style: Style, source: Callable[[Place], str | None]) -> str:
    """The findings as blocks, an empty line after each."""
    lines: dict[tuple[str, int | None], list[str]] = {}
    blocks = []
    for finding in findings:
        where = _text(finding.place)
        if where not in lines:
            # The rows of Python's own tokenizer: str.splitlines would also cut at form feeds.
            lines[where] = re.split(r"\r\n|\r|\n", source(finding.place) or "")
        blocks.append("\n".join(_block(finding, lines[where], names, style)) + "\n\n")
    return "".join(blocks)


def _text(place: Place) -> tuple[str, int | None]:
    """The text that a place is in: a file, or a cell of a notebook."""
    return place.filename, place.cell


def _block(finding: Finding, lines: Sequence[str], names: Names, style: Style) -> Iterator[str]:
    colour = SEVERITY_COLOUR[finding.severity.value]
    code = style(finding.code, colour, bold=True)
    yield f"{place(finding.place, names, style)}: {code} {star(finding, style)}{style(finding.name, bold=True)}"
    yield f"{style(finding.severity.value, colour, bold=True)}: {printable(finding.message)}"
    marks = [mark for mark in _marks(finding) if mark.span.start.row <= len(lines)]
    width = len(str(max((mark.span.start.row for mark in marks), default=0)))
    gutter = " " * width
    if marks and lines != [""]:
        yield f"{gutter} {style('|', 'cyan')}"
        yield from _frame(marks, lines, width, colour, style)
        yield f"{gutter} {style('|', 'cyan')}"
    equals = style("=", "cyan")
    for related in finding.related:
        if _text(related.place) != _text(finding.place):
            where = place(related.place, names, style)
            yield f"{gutter} {equals} {where} {printable(_label(related))}"
    if finding.help:
        yield f"{gutter} {equals} {style('help', bold=True)}: {printable(finding.help)}"
    if finding.fix is not None:
        fix = f"{style('fix', bold=True)} ({finding.fix.applicability.value})"
        yield f"{gutter} {equals} {fix}: {printable(finding.fix.message)}"


def _marks(finding: Finding) -> list[_Mark]:
    """The finding's own span first among those of its text, each span once; two things said of one span share it."""
    labels: dict[Span, list[str]] = {finding.place.span: []}
    for related in finding.related:
        if _text(related.place) == _text(finding.place):
            labels.setdefault(related.place.span, []).append(_label(related))
    marks = [_Mark(span, "; ".join(said), span == finding.place.span) for span, said in labels.items()]
    return sorted(marks, key=lambda mark: mark.span)


def _label(related: Related) -> str:
    """Role and message; once, where the message begins with what the role is called."""
    role = related.role.value
    if related.message.startswith(role) or not related.message:
        return related.message or role
    return f"{role}: {related.message}"


def _frame(marks: Sequence[_Mark], lines: Sequence[str], width: int, colour: str, style: Style) -> Iterator[str]:
    bar = style("|", "cyan")
    by_row: dict[int, list[_Mark]] = {}
    for mark in marks:
        by_row.setdefault(mark.span.start.row, []).append(mark)
    before = None
    for row, here in by_row.items():
        if before is not None and row - before == 2:
            yield from _line(before + 1, lines[before], (), width, bar, style)
        elif before is not None and row - before > 2:
            yield style(_GAP, "cyan")
        yield from _line(row, lines[row - 1], here, width, bar, style, colour)
        before = row


def _line(
    row: int, line: str, marks: Sequence[_Mark], width: int, bar: str, style: Style, colour: str = ""
) -> Iterator[str]:
    """A line of code, and below it a line for each mark."""
    cells, starts = columns(line.rstrip())
    spans = [_columns(mark.span, starts) for mark in marks]
    left = min((start for start, _ in spans), default=0) - _BEFORE if starts[-1] > _WIDEST else 0
    left = max(left, 0)
    yield f"{style(str(row).rjust(width), 'cyan')} {bar} {_cut(cells, starts, left)}".rstrip()
    for mark, (start, end) in zip(marks, spans, strict=True):
        lead = " " * (start - left + (len(_GAP) if left else 0))
        line_of = "^" if mark.primary else "-"
        underline = line_of * max(1, min(end, left + _WIDEST) - start)
        beyond = f" (to line {mark.span.end.row})" if mark.span.end.row > row else ""
        said = f"{underline} {printable(mark.label)}{beyond}".rstrip()
        yield f"{' ' * width} {bar} {lead}{style(said, colour if mark.primary else 'cyan')}"


def _columns(span: Span, starts: Sequence[int]) -> tuple[int, int]:
    """The terminal columns where the part of the span on its first row begins and ends."""
    last = len(starts) - 1
    start = starts[min(span.start.column - 1, last)]
    end = starts[min(span.end.column - 1, last)] if span.end.row == span.start.row else starts[last]
    return start, end


def _cut(cells: Sequence[str], starts: Sequence[int], left: int) -> str:
    kept = [cell for cell, start in zip(cells, starts, strict=False) if left <= start < left + _WIDEST]
    return (_GAP if left else "") + "".join(kept) + (_GAP if starts[-1] > left + _WIDEST else "")
