"""The command with an analysis that finds what the scanned text asks for; tests of the front run it as a script.

A line `GA101 warning` is a finding, `crash` a fault of the analysis, `wait` a long one, `die` the end of the
process.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from gafixer import engine, scan
from gafixer.cli import main
from gafixer.findings import (
    Applicability,
    Confidence,
    Detail,
    Finding,
    Fix,
    Place,
    Position,
    Related,
    Role,
    Severity,
    Span,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from gafixer.analysis.project import Project
    from gafixer.settings import Settings

_ASKED = re.compile(r"(GA\d{3}) (error|warning|info)( safe)?")


def _span(row: int, start: int, end: int) -> Span:
    return Span(Position(row, start + 1), Position(row, end + 1))


def check_source(
    source: bytes, path: str, project: Project, settings: Settings, detail: Detail = Detail.EDITS
) -> engine.Report:
    """Findings where the text asks for them, the first line as their evidence."""
    text = source.decode("utf-8", "replace")
    if "crash" in text:
        raise RecursionError("asked to\ncrash")
    if "wait" in text:
        print("here", flush=True)
        time.sleep(60)
    if "die" in text:
        os._exit(9)
    found = []
    for row, line in enumerate(text.split("\n"), 1):
        for match in _ASKED.finditer(line):
            place = Place(path, _span(row, match.start(), match.end()))
            fix = Fix(Applicability.SAFE, "mend it") if match[3] else None
            first = Related(Role.EVIDENCE, Place(path, _span(1, 0, 1)), "the first line")
            message = f"asked for: {line.strip()}"
            severity = Severity(match[2])
            found.append(
                Finding(match[1], "asked-for", message, severity, Confidence.HIGH, place, (first,), "don't ask", fix)
            )
    return engine.Report(tuple(finding for finding in found if finding.code in settings.selected))


def trace(
    source: bytes, path: str, project: object, row: int, declared: object = None, label: Callable[[int], str] = str
) -> str:
    """The line itself."""
    return f"{path} {label(row)}\n{source.decode().splitlines()[row - 1]}"


class _Project:
    """Remembers no module, as there is none."""

    def forget(self) -> None:
        pass


scan.Scanner.project = _Project()  # type: ignore[assignment]  # nothing is imported
engine.check_source = check_source
engine.wanted = lambda source: b"unwanted" not in source
engine.trace = trace

if __name__ == "__main__":
    main()
