"""Comments that silence findings.

    (loss / steps).backward()  # gafixer: ignore[GA101] every microbatch has 512 tokens
    # gafixer: file-ignore[GA101, log-scale]
    (loss / steps).backward()  # noqa: GA101

The first and the last stand on the first or last line of a statement, or alone above it; the second anywhere.
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gafixer.findings import Finding

__all__ = ["suppress"]

_OURS = re.compile(r"#\s*gafixer:\s*(?P<kind>ignore|file-ignore)\[(?P<rules>[^\]]*)\]")
_NOQA = re.compile(r"#\s*noqa(?![\w-])(?P<colon>\s*:\s*(?P<codes>[A-Z]+\d+(?:[\s,]+[A-Z]+\d+)*)?)?", re.IGNORECASE)
_EVERYTHING = "*"


@dataclass(slots=True)
class _Comments:
    """What the comments of a file silence: for all of it, and at the rows of each statement."""

    everywhere: set[str] = field(default_factory=set)
    # row -> what is silenced there
    at: dict[int, set[str]] = field(default_factory=dict)


def suppress(source: bytes, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings that no comment silences."""
    if not findings or (b"gafixer:" not in source and b"noqa" not in source.lower()):
        return tuple(findings)
    comments = _read(source)

    def silenced(finding: Finding) -> bool:
        said = comments.everywhere | comments.at.get(finding.place.span.start.row, set())
        return not said.isdisjoint((finding.code, finding.name, _EVERYTHING))

    return tuple(finding for finding in findings if not silenced(finding))


def _read(source: bytes) -> _Comments:
    comments = _Comments()
    above: set[str] = set()  # said by comments that stand alone, for the statement that follows at once
    for rows, said in _statements(source):
        everywhere, here = _rules(said.values())
        comments.everywhere |= everywhere
        if rows is None:
            above = above | here if here or said else set()
            continue
        outside = {row: comment for row, comment in said.items() if row in (rows[0], rows[-1])}
        _, here = _rules(outside.values())
        for row in rows:
            comments.at.setdefault(row, set()).update(here | above)
        above = set()
    return comments


def _rules(said: Iterable[str]) -> tuple[set[str], set[str]]:
    """What these comments silence in the whole file, and where they stand."""
    everywhere: set[str] = set()
    here: set[str] = set()
    for comment in said:
        for match in _OURS.finditer(comment):
            rules = {rule.strip() for rule in match["rules"].split(",")} - {""}
            (everywhere if match["kind"] == "file-ignore" else here).update(rules)
        for match in _NOQA.finditer(comment):
            if match["codes"]:
                here.update(match["codes"].upper().replace(",", " ").split())
            elif not match["colon"]:  # without codes it silences a line in every linter
                here.add(_EVERYTHING)
    return everywhere, here


def _statements(source: bytes) -> Iterator[tuple[range | None, dict[int, str]]]:
    """Each statement's rows with its comments by row; a line that holds only a comment, or nothing, has no rows."""
    lines = re.sub(rb"\r\n?", b"\n", source)
    said: dict[int, str] = {}
    first = None
    try:
        for token in tokenize.tokenize(io.BytesIO(lines).readline):
            match token.type:
                case tokenize.COMMENT:
                    said[token.start[0]] = token.string
                case tokenize.NL if first is None:
                    yield None, said
                    said = {}
                case tokenize.NEWLINE if first is not None:
                    yield range(first, token.start[0] + 1), said
                    said, first = {}, None
                case tokenize.ENCODING | tokenize.NL | tokenize.INDENT | tokenize.DEDENT | tokenize.ENDMARKER:
                    pass
                case _ if first is None:
                    first = token.start[0]
    except (SyntaxError, tokenize.TokenError):  # the comments before the place that makes no tokens still count
        return
