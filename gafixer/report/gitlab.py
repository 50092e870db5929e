"""A GitLab Code Quality report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gafixer.findings import Severity
from gafixer.fingerprint import fingerprints
from gafixer.report.names import physical, said

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gafixer.findings import Finding, Place, Position
    from gafixer.report.names import Names

__all__ = ["render"]

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.INFO: "info"}


def render(findings: Sequence[Finding], names: Names, source: Callable[[Place], str | None]) -> str:
    """All findings as one document. A fingerprint stays the same when lines move."""
    known = fingerprints(findings, names, source)
    entries = [_entry(finding, names, mark) for finding, mark in zip(findings, known, strict=True)]
    return json.dumps(entries, indent=2) + "\n"


def _entry(finding: Finding, names: Names, fingerprint: str) -> dict[str, Any]:
    span = physical(finding.place)
    return {
        "check_name": finding.code,
        "description": f"{finding.code}: {said(finding.place, finding.message)}",
        "severity": _SEVERITIES[finding.severity],
        "fingerprint": fingerprint,
        "location": {
            "path": names.relative(finding.place.filename),
            "positions": {"begin": _position(span.start), "end": _position(span.end)},
        },
    }


def _position(position: Position) -> dict[str, int]:
    return {"line": position.row, "column": position.column}
