"""How often each rule was found."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.findings import Finding
    from gafixer.report.text import Style

__all__ = ["as_json", "render"]


def _rows(findings: Sequence[Finding]) -> list[tuple[int, Finding]]:
    """How often, and one of them, for each code; the most frequent first."""
    counts = Counter(finding.code for finding in findings)
    first = {finding.code: finding for finding in reversed(findings)}
    return [(count, first[code]) for code, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def render(findings: Sequence[Finding], style: Style) -> str:
    """A line for each rule: count, code, name."""
    rows = _rows(findings)
    width = max((len(str(count)) for count, _ in rows), default=0)
    return "".join(
        f"{style(str(count).rjust(width), bold=True)}  {style(one.code, 'red', bold=True)}  {one.name}\n"
        for count, one in rows
    )


def as_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The same, as data."""
    return [{"code": one.code, "name": one.name, "count": count} for count, one in _rows(findings)]
