"""The diagnostic format of reviewdog: columns are bytes of UTF-8 there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from gafixer.findings import Position, Severity
from gafixer.report.json import url
from gafixer.report.names import physical, said

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gafixer.findings import Finding, Place, Span
    from gafixer.report.names import Names

__all__ = ["render"]

_SEVERITIES = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.INFO: "INFO"}


def render(findings: Sequence[Finding], names: Names, source: Callable[[Place], str | None]) -> str:
    """All findings as one document."""
    return (
        json.dumps(
            {
                "source": {"name": "gafixer", "url": "https://github.com/gafixer/gafixer"},
                "severity": "WARNING",
                "diagnostics": [_diagnostic(finding, names, source) for finding in findings],
            },
            indent=2,
        )
        + "\n"
    )


def _diagnostic(finding: Finding, names: Names, source: Callable[[Place], str | None]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "message": said(finding.place, finding.message),
        "location": _location(finding.place, names, source),
        "severity": _SEVERITIES[finding.severity],
        "code": {"value": finding.code, "url": url(finding.code)},
    }
    if finding.related:
        made["related_locations"] = [
            {
                "message": said(related.place, f"{related.role.value}: {related.message}"),
                "location": _location(related.place, names, source),
            }
            for related in finding.related
        ]
    # A suggestion is a change of the file: cells of a notebook, and other files, have no place in it.
    alone = finding.fix is not None and all(edit.filename is None for edit in finding.fix.edits)
    if finding.fix is not None and finding.fix.edits and finding.place.cell is None and alone:
        made["suggestions"] = [
            {"range": _range(edit.span, source(finding.place)), "text": edit.content} for edit in finding.fix.edits
        ]
    return made


def _location(place: Place, names: Names, source: Callable[[Place], str | None]) -> dict[str, Any]:
    text = source(place) if place.cell is None else None
    return {"path": names.relative(place.filename), "range": _range(physical(place), text)}


def _range(span: Span, text: str | None) -> dict[str, Any]:
    lines = [] if text is None else re.split(r"\r\n|\r|\n", text)
    return {"start": _position(span.start, lines), "end": _position(span.end, lines)}


def _position(position: Position, lines: Sequence[str]) -> dict[str, int]:
    line = lines[position.row - 1] if position.row <= len(lines) else ""
    before = line[: position.column - 1]
    return {"line": position.row, "column": position.column + len(before.encode()) - len(before)}
