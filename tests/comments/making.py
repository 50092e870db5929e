"""Findings for comments to speak of."""

from __future__ import annotations

from gafixer.findings import Confidence, Finding, Place, Position, Severity, Span

__all__ = ["finding"]


def finding(row: int, code: str = "GA101", name: str = "mean-over-steps") -> Finding:
    """At the beginning of a row of a.py."""
    span = Span(Position(row, 1), Position(row, 2))
    return Finding(code, name, "said", Severity.ERROR, Confidence.HIGH, Place("a.py", span))
