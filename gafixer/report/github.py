"""Annotations of a GitHub Actions run: workflow commands on standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.findings import Severity
from gafixer.report.concise import place
from gafixer.report.names import physical
from gafixer.report.text import Style, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.findings import Finding
    from gafixer.report.names import Names

__all__ = ["render"]

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(findings: Sequence[Finding], names: Names) -> str:
    """A command for each finding."""
    return "".join(f"{_command(finding, names)}\n" for finding in findings)


def _command(finding: Finding, names: Names) -> str:
    span = physical(finding.place)
    properties = {
        "title": f"gafixer ({finding.code})",
        "file": printable(names.relative(finding.place.filename)),
        "line": str(span.start.row),
        "col": str(span.start.column),
        "endLine": str(span.end.row),
        "endColumn": str(span.end.column),
    }
    said = f"{place(finding.place, names, Style(colour=False))}: {finding.code} {printable(finding.message)}"
    given = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {given}::{_data(said)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
