"""One line for each finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.findings import Applicability
from gafixer.report.text import Style, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.findings import Finding, Place
    from gafixer.report.names import Names

__all__ = ["SEVERITY_COLOUR", "place", "render", "star"]

SEVERITY_COLOUR = {"error": "red", "warning": "yellow", "info": "blue"}


def render(findings: Sequence[Finding], names: Names, style: Style) -> str:
    """`path:line:col: GA101 [*] message`, a line each; the star marks a fix that is safe to apply."""
    return "".join(f"{_line(finding, names, style)}\n" for finding in findings)


def _line(finding: Finding, names: Names, style: Style) -> str:
    code = style(finding.code, SEVERITY_COLOUR[finding.severity.value], bold=True)
    return f"{place(finding.place, names, style)}: {code} {star(finding, style)}{printable(finding.message)}"


def place(where: Place, names: Names, style: Style) -> str:
    """`path:line:col`, in a notebook `path:cell N:line:col`; columns from 1, in characters."""
    start = where.span.start
    name = style(printable(names.short(where.filename)), bold=True)
    colon = style(":", "cyan")
    number = "" if where.cell is None else f"cell {where.cell}{colon}"
    return f"{name}{colon}{number}{start.row}{colon}{start.column}"


def star(finding: Finding, style: Style) -> str:
    """`[*] ` for a finding with a safe fix."""
    if finding.fix is None or finding.fix.applicability is not Applicability.SAFE:
        return ""
    return f"[{style('*', 'cyan')}] "
