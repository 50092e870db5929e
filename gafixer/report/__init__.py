"""One pure function per output format: findings in, text out."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from gafixer.findings import Detail
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
    GROUPED = "grouped"
    JSON = "json"
    JSON_LINES = "json-lines"
    SARIF = "sarif"
    GITHUB = "github"
    GITLAB = "gitlab"
    JUNIT = "junit"
    RDJSON = "rdjson"

    @property
    def detail(self) -> Detail:
        """What it tells of a fix."""
        match self:
            case Format.JSON | Format.JSON_LINES | Format.SARIF | Format.RDJSON:
                return Detail.EDITS
            case Format.FULL | Format.CONCISE | Format.GROUPED:
                return Detail.PROSE
            case Format.GITHUB | Format.GITLAB | Format.JUNIT:
                return Detail.NOTHING

    @property
    def counts(self) -> bool:
        """Whether statistics can be shown in it."""
        return self in {Format.FULL, Format.CONCISE, Format.GROUPED, Format.JSON}


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
        case Format.FULL:
            from gafixer.report import full

            return full.render(findings, names, Style(colour), source)
        case Format.CONCISE:
            from gafixer.report import concise

            return concise.render(findings, names, Style(colour))
        case Format.GROUPED:
            from gafixer.report import grouped

            return grouped.render(findings, names, Style(colour))
        case Format.GITHUB:
            from gafixer.report import github

            return github.render(findings, names)
        case Format.JUNIT:
            from gafixer.report import junit

            return junit.render(findings, names)
        case _:
            return _data(output, findings, names, source)


def _data(output: Format, findings: Sequence[Finding], names: Names, source: Callable[[Place], str | None]) -> str:
    """The formats that are JSON."""
    from gafixer.report import gitlab, json, rdjson, sarif

    match output:
        case Format.JSON_LINES:
            return json.render_lines(findings, names)
        case Format.SARIF:
            return sarif.render(findings, names, source)
        case Format.GITLAB:
            return gitlab.render(findings, names, source)
        case Format.RDJSON:
            return rdjson.render(findings, names, source)
        case _:
            return json.render(findings, names)


def render_statistics(output: Format, findings: Sequence[Finding], *, colour: bool = False) -> str:
    """How often each rule was found: a table, or data when the format is data."""
    from gafixer.report import statistics

    if output is Format.JSON:
        from gafixer.report import json

        return json.wrap("statistics", statistics.as_json(findings))
    return statistics.render(findings, Style(colour))
