"""What a finding is known by when lines move: its file, its rule, the code that it is about."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gafixer.findings import Finding, Place, Span
    from gafixer.report.names import Names

__all__ = ["Key", "fingerprints", "key"]

_SCOPE = re.compile(r"(?P<indent>[ \t]*)(?:async\s+)?(?:def|class)\s+(?P<name>\w+)")


class Key(NamedTuple):
    """`code` is the rule's, `scope` the dotted name of the function or class around, `text` the code in one line.

    `filename` is relative to some folder, with forward slashes.
    """

    filename: str
    code: str
    scope: str
    text: str


def key(finding: Finding, filename: str, source: str | None) -> Key:
    """The key of a finding in a file of this text; without the text all findings of a rule in a file have one key."""
    lines = re.split(r"\r\n|\r|\n", source or "")
    return Key(filename, finding.code, _scope(lines, finding.place.span), _text(lines, finding.place.span))


def _text(lines: Sequence[str], span: Span) -> str:
    """The code of a span with each run of blanks as one: indentation and line breaks are no part of it."""
    rows = list(lines[span.start.row - 1 : span.end.row])
    if not rows:
        return ""
    if len(rows) == span.end.row - span.start.row + 1:
        rows[-1] = rows[-1][: span.end.column - 1]
    rows[0] = rows[0][span.start.column - 1 :]
    return " ".join(" ".join(rows).split())


def _scope(lines: Sequence[str], span: Span) -> str:
    """The definitions that the row is indented below, read upwards: good for files that don't parse, too."""
    names: list[str] = []
    inner = _indent(lines[span.start.row - 1]) if span.start.row <= len(lines) else 0
    for line in reversed(lines[: span.start.row - 1]):
        if not line.strip() or _indent(line) >= inner:
            continue
        if found := _SCOPE.match(line):
            names.append(found["name"])
            inner = _indent(line)
        elif _indent(line) == 0 and not line.lstrip().startswith((")", "]", "}", "#")):
            break
    return ".".join(reversed(names))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def fingerprints(findings: Sequence[Finding], names: Names, source: Callable[[Place], str | None]) -> Iterator[str]:
    """For each finding a hexadecimal name that no other one has; findings of one key are told apart by their order."""
    seen: Counter[Key] = Counter()
    for finding in findings:
        known = key(finding, names.relative(finding.place.filename), source(finding.place))
        seen[known] += 1
        yield hashlib.sha256("\0".join((*known, str(seen[known]))).encode()).hexdigest()
