"""What the comments of a program silence."""

from __future__ import annotations

import enum
import io
import re
import tokenize
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gafixer.findings import Finding

__all__ = ["Directive", "Kind", "Statement", "directives", "statements"]

_OURS = re.compile(r"#\s*gafixer:\s*(?P<kind>ignore|file-ignore)\[(?P<rules>[^\]]*)\]")
_NOQA = re.compile(r"#\s*noqa(?![\w-])(?P<colon>\s*:\s*(?P<rules>[A-Z]+\d+(?:[\s,]+[A-Z]+\d+)*)?)?", re.IGNORECASE)
_WORD = re.compile(r"[^\s,](?:[^,]*[^\s,])?")
_CODE = re.compile(r"[A-Z]+\d+", re.IGNORECASE)


class Kind(enum.Enum):
    """Whose comment it is, and how far it reaches."""

    IGNORE = "ignore"
    FILE = "file-ignore"
    NOQA = "noqa"


@dataclass(frozen=True, slots=True)
class Directive:
    """A part of a comment that silences rules: codes or names; none of them: every rule of every linter.

    It stands in `row` from `start` up to `end`, columns of characters from 0. `rows` are those that it speaks of, None
    for all of the file. `alone`: nothing but the comment is in its line.
    """

    kind: Kind
    rules: tuple[str, ...]
    row: int
    start: int
    end: int
    rows: range | None
    alone: bool

    def silences(self, finding: Finding) -> bool:
        """Whether it speaks of this finding."""
        return self.covers(finding) and (not self.rules or finding.code in self.rules or finding.name in self.rules)

    def covers(self, finding: Finding) -> bool:
        """Whether the finding stands where it speaks of."""
        return self.rows is None or finding.place.span.start.row in self.rows


@dataclass(frozen=True, slots=True)
class Statement:
    """A logical line: its rows, and the comments in it by row, each with the column where it begins.

    `rows` None: a line that holds only a comment, or nothing.
    """

    rows: range | None
    comments: dict[int, tuple[int, str]]


def directives(text: str) -> Iterator[Directive]:
    """What the comments of a program silence, in the order of the places."""
    above: list[tuple[int, int, str]] = []  # comments that stand alone, right above the next statement
    for statement in statements(text):
        said = [(row, column, comment) for row, (column, comment) in statement.comments.items()]
        if statement.rows is None:
            if said:
                above += said
            else:
                yield from _alone(above, None)
                above = []
            continue
        yield from _alone(above, statement.rows)
        above = []
        for row, column, comment in said:
            # In the middle of a statement only what holds for the file counts.
            outside = row in (statement.rows[0], statement.rows[-1])
            yield from _parts(comment, row, column, statement.rows if outside else None, alone=False)
    yield from _alone(above, None)


def _alone(comments: Sequence[tuple[int, int, str]], rows: range | None) -> Iterator[Directive]:
    """Of comments above a statement, or (`rows` None) above none."""
    for row, column, comment in comments:
        yield from _parts(comment, row, column, rows, alone=True)


def _parts(comment: str, row: int, column: int, rows: range | None, *, alone: bool) -> Iterator[Directive]:
    """The directives of one comment. What speaks of a statement and has none (`rows` None) speaks of nothing."""
    here = range(0) if rows is None else rows
    for match in _OURS.finditer(comment):
        kind = Kind(match["kind"])
        rules = tuple(_WORD.findall(match["rules"]))
        if rules:
            reach = None if kind is Kind.FILE else here
            yield Directive(kind, rules, row, column + match.start(), column + match.end(), reach, alone)
    for match in _NOQA.finditer(comment):
        codes = tuple(code.upper() for code in _CODE.findall(match["rules"] or ""))
        if codes or not match["colon"]:
            yield Directive(Kind.NOQA, codes, row, column + match.start(), column + match.end(), here, alone)


def statements(text: str) -> Iterator[Statement]:
    """The logical lines of a program, as far as it makes tokens."""
    comments: dict[int, tuple[int, str]] = {}
    first = None
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            match token.type:
                case tokenize.COMMENT:
                    comments[token.start[0]] = token.start[1], token.string
                case tokenize.NL if first is None:
                    yield Statement(None, comments)
                    comments = {}
                case tokenize.NEWLINE if first is not None:
                    yield Statement(range(first, token.start[0] + 1), comments)
                    comments, first = {}, None
                case tokenize.ENCODING | tokenize.NL | tokenize.INDENT | tokenize.DEDENT | tokenize.ENDMARKER:
                    pass
                case _ if first is None:
                    first = token.start[0]
    except (SyntaxError, tokenize.TokenError):  # the comments before the place that makes no tokens still count
        return
