"""The JSON format, version 1: field names are ruff's where it has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gafixer import __version__, rulebook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.findings import Finding, Fix, Position, Related
    from gafixer.report.names import Names

__all__ = ["render", "render_lines", "url", "wrap"]

_PAGES = "https://github.com/gafixer/gafixer/blob/main/rules/"


def render(findings: Sequence[Finding], names: Names) -> str:
    """All findings as one document."""
    return wrap("findings", [_finding(finding, names) for finding in findings])


def render_lines(findings: Sequence[Finding], names: Names) -> str:
    """Each finding as a document of its own, in one line."""
    return "".join(f"{json.dumps(_finding(finding, names))}\n" for finding in findings)


def url(code: str) -> str:
    """Where the page of a rule is."""
    return f"{_PAGES}{rulebook.folder(code)}/README.md"


def wrap(key: str, value: object) -> str:
    """A document of this version. Only ASCII: nothing scanned reaches a terminal as a control code."""
    return json.dumps({"version": 1, "gafixer": __version__, key: value}, indent=2) + "\n"


def _finding(finding: Finding, names: Names) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "filename": names.relative(finding.place.filename),
        "cell": finding.place.cell,
        "location": _position(finding.place.span.start),
        "end_location": _position(finding.place.span.end),
        "related": [_related(related, names) for related in finding.related],
        "fix": _fix(finding.fix, names) if finding.fix else None,
        "url": url(finding.code),
    }


def _position(position: Position) -> dict[str, int]:
    return {"row": position.row, "column": position.column}


def _related(related: Related, names: Names) -> dict[str, Any]:
    return {
        "role": related.role.value,
        "filename": names.relative(related.place.filename),
        **_cell(related.place.cell),
        "location": _position(related.place.span.start),
        "message": related.message,
    }


def _cell(number: int | None) -> dict[str, int]:
    """The cell of what lies in a notebook."""
    return {} if number is None else {"cell": number}


def _fix(fix: Fix, names: Names) -> dict[str, Any]:
    edits = [
        {
            **({} if edit.filename is None else {"filename": names.relative(edit.filename)}),
            **_cell(edit.cell),
            "location": _position(edit.span.start),
            "end_location": _position(edit.span.end),
            "content": edit.content,
        }
        for edit in fix.edits
    ]
    return {"applicability": fix.applicability.value, "message": fix.message, "edits": edits}
