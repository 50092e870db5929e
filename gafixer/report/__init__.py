"""One pure function per output format: findings in, text out."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from gafixer.report.text import Style

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gafixer.findings import Finding, Place
    from gafixer.report.names import Names

__all__ = ["Format", "render", "render_statistics"]


class Format(enum.Enum):
    """The formats by the names that the command line knows."""

    FULL = "full"
    CONCISE = "concise"
    JSON = "json"


def render(
    output: Format,
    findings: Sequence[Finding],
    names: Names,
    *,
    source: Callable[[Place], str | None],
    colour: bool = False,
) -> str:
    """The findings in a format.

    `source` gives the text that a finding's place is in, None when it can't be had any more.
    """
    match output:
        case Format.JSON:
            from gafixer.report import json

            return json.render(findings, names)
        case Format.CONCISE:
            from gafixer.report import concise

            return concise.render(findings, names, Style(colour))
        case Format.FULL:
            from gafixer.report import full

            return full.render(findings, names, Style(colour), source)


def render_statistics(output: Format, findings: Sequence[Finding], *, colour: bool = False) -> str:
    """How often each rule was found: a table, or data when the format is data."""
    from gafixer.report import statistics

    if output is Format.JSON:
        from gafixer.report import json

        return json.wrap("statistics", statistics.as_json(findings))
    return statistics.render(findings, Style(colour))
