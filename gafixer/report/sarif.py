"""SARIF 2.1.0, as code scanning services read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gafixer import __version__, rulebook
from gafixer.findings import Severity
from gafixer.fingerprint import fingerprints
from gafixer.report.json import url
from gafixer.report.names import physical, said

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gafixer.findings import Finding, Fix, Place, Related, Span
    from gafixer.report.names import Names

__all__ = ["render"]

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def render(findings: Sequence[Finding], names: Names, source: Callable[[Place], str | None]) -> str:
    """All findings as one log with one run. Only ASCII, as JSON escapes it."""
    codes = sorted({finding.code for finding in findings})
    known = fingerprints(findings, names, source)
    driver = {
        "name": "gafixer",
        "version": __version__,
        "informationUri": "https://github.com/gafixer/gafixer",
        "rules": _rules(codes),
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, codes.index(finding.code), mark, names)
            for finding, mark in zip(findings, known, strict=True)
        ],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _rules(codes: Sequence[str]) -> list[dict[str, Any]]:
    if not codes:
        return []
    rules = {rule.code: rule for rule in rulebook.load()}
    return [
        {
            "id": code,
            "name": rules[code].name,
            "shortDescription": {"text": rules[code].summary},
            "helpUri": url(code),
        }
        for code in codes
    ]


def _result(finding: Finding, index: int, fingerprint: str, names: Names) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": said(finding.place, finding.message)},
        "locations": [{"physicalLocation": _physical(finding.place, names)}],
        "partialFingerprints": {"gafixer/v1": fingerprint},
        "properties": {"confidence": finding.confidence.value},
    }
    if finding.related:
        result["relatedLocations"] = [_related(number, r, names) for number, r in enumerate(finding.related)]
    # A change of the file: cells of a notebook have no place in it.
    if finding.fix is not None and finding.fix.edits and finding.place.cell is None:
        result["fixes"] = [_fix(finding.fix, finding.place, names)]
    return result


def _related(number: int, related: Related, names: Names) -> dict[str, Any]:
    return {
        "id": number,
        "physicalLocation": _physical(related.place, names),
        "message": {"text": said(related.place, f"{related.role.value}: {related.message}")},
    }


def _fix(fix: Fix, place: Place, names: Names) -> dict[str, Any]:
    paths = dict.fromkeys(edit.filename or place.filename for edit in fix.edits)
    changes = [
        {
            "artifactLocation": _artifact(path, names),
            "replacements": [
                {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.content}}
                for edit in fix.edits
                if (edit.filename or place.filename) == path
            ],
        }
        for path in paths
    ]
    return {"description": {"text": f"{fix.message} ({fix.applicability.value})"}, "artifactChanges": changes}


def _physical(place: Place, names: Names) -> dict[str, Any]:
    return {"artifactLocation": _artifact(place.filename, names), "region": _region(physical(place))}


def _artifact(path: str, names: Names) -> dict[str, str]:
    """A relative reference below the working directory; an absolute one where it lies elsewhere."""
    name = names.relative(path)
    if name == ".." or name.startswith("../"):
        return {"uri": Path(names.directory, name).resolve().as_uri()}
    return {"uri": quote(name), "uriBaseId": "%SRCROOT%"}


def _region(span: Span) -> dict[str, int]:
    return {
        "startLine": span.start.row,
        "startColumn": span.start.column,
        "endLine": span.end.row,
        "endColumn": span.end.column,
    }
