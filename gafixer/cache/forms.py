"""Findings as JSON, and back: what a cache file holds is data, whoever wrote it."""

from __future__ import annotations

from typing import Any

from gafixer.findings import (
    Applicability,
    Confidence,
    Edit,
    Finding,
    Fix,
    Place,
    Position,
    Related,
    Role,
    Severity,
    Span,
)

__all__ = ["finding", "form"]


def form(found: Finding) -> list[Any]:
    """A finding as a list of plain values."""
    related = [[r.role.value, _place(r.place), r.message] for r in found.related]
    fix = None
    if found.fix is not None:
        edits = [[_span(e.span), e.content, e.cell, e.filename] for e in found.fix.edits]
        fix = [found.fix.applicability.value, found.fix.message, edits]
    head = [found.code, found.name, found.message, found.severity.value, found.confidence.value]
    return [*head, _place(found.place), related, found.help, fix]


def finding(made: Any) -> Finding:
    """The finding that a list stands for.

    Raises:
        ValueError, TypeError: it stands for none.
    """
    code, name, message, severity, confidence, place, related, help_, fix = made
    return Finding(
        _text(code),
        _text(name),
        _text(message),
        Severity(severity),
        Confidence(confidence),
        _to_place(place),
        tuple(Related(Role(role), _to_place(where), _text(said)) for role, where, said in related),
        _text(help_),
        None if fix is None else _to_fix(fix),
    )


def _span(span: Span) -> list[int]:
    return [span.start.row, span.start.column, span.end.row, span.end.column]


def _place(place: Place) -> list[Any]:
    return [place.filename, _span(place.span), place.cell]


def _to_span(made: Any) -> Span:
    start, column, end, last = map(_number, made)
    return Span(Position(start, column), Position(end, last))


def _to_place(made: Any) -> Place:
    filename, span, cell = made
    return Place(_text(filename), _to_span(span), None if cell is None else _number(cell))


def _to_fix(made: Any) -> Fix:
    applicability, message, edits = made
    return Fix(Applicability(applicability), _text(message), tuple(map(_to_edit, edits)))


def _to_edit(made: Any) -> Edit:
    span, content, cell, filename = made
    where = None if filename is None else _text(filename)
    return Edit(_to_span(span), _text(content), None if cell is None else _number(cell), where)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no number")
    return value
