"""GA901: comments that silence nothing, and their repair."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gafixer import rulebook
from gafixer.comments import UNUSED
from gafixer.comments.directives import Directive, Kind, directives
from gafixer.findings import Applicability, Confidence, Edit, Finding, Fix, Place, Position, Severity, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["unused"]

_NAME = "unused-suppression"


def unused(text: str, path: str, findings: Sequence[Finding], selected: frozenset[str]) -> Iterator[Finding]:
    """One finding for each comment that names a rule which was looked for and not found there, or which does not exist.

    `findings` are all of the program, whatever their severity; `selected` the rules that were looked for. Comments that
    silence every linter say nothing of this one.
    """
    lines = text.split("\n")
    for said in directives(text):
        if _meant(said):
            continue
        idle = [rule for rule in said.rules if _idle(rule, said, findings, selected)]
        if idle:
            yield _finding(said, idle, path, lines[said.row - 1])


def _meant(said: Directive) -> bool:
    """Whether a comment silences this very rule."""
    return UNUSED in said.rules or _NAME in said.rules


def _idle(rule: str, said: Directive, findings: Sequence[Finding], selected: frozenset[str]) -> bool:
    """Whether a rule of a comment silences nothing. Of `noqa` only codes that look like ours are ours to judge."""
    catalogue = rulebook.catalogue()
    codes = {code for code, name in catalogue.items() if rule in (code, name)}
    if not codes:
        return said.kind is not Kind.NOQA
    looked_for = codes <= selected
    return looked_for and not any(f.code in codes and said.covers(f) for f in findings)


def _finding(said: Directive, idle: Sequence[str], path: str, line: str) -> Finding:
    known = {word for pair in rulebook.catalogue().items() for word in pair}
    absent = [rule for rule in idle if rule in known]
    wrong = [rule for rule in idle if rule not in known]
    parts = [f"{_listed(absent)} {'is' if len(absent) == 1 else 'are'} not found there"] if absent else []
    parts += [f"no rule is called {_listed(wrong)}"] if wrong else []
    where = Span(Position(said.row, said.start + 1), Position(said.row, said.end + 1))
    return Finding(
        UNUSED,
        _NAME,
        f"this comment silences nothing: {', and '.join(parts)}",
        Severity.WARNING,
        Confidence.HIGH,
        Place(path, where),
        help="take it out, so that a fault that comes later is shown",
        fix=Fix(Applicability.SAFE, f"Take {_listed(idle)} out of the comment", (_edit(said, idle, line),)),
    )


def _listed(rules: Sequence[str]) -> str:
    return " and ".join([", ".join(rules[:-1]), rules[-1]] if len(rules) > 1 else rules)


def _edit(said: Directive, idle: Sequence[str], line: str) -> Edit:
    kept = [rule for rule in said.rules if rule not in idle]
    if kept:
        return _replaced(said, line, kept)
    # A reason goes with what it is the reason of: up to the next comment in the line.
    following = line.find("#", said.end)
    end = len(line) if following == -1 else following
    start = len(line[: said.start].rstrip())
    if following != -1:
        return Edit(Span(Position(said.row, said.start + 1), Position(said.row, end + 1)), "")
    if start == 0:
        return Edit(Span(Position(said.row, 1), Position(said.row + 1, 1)), "")
    return Edit(Span(Position(said.row, start + 1), Position(said.row, end + 1)), "")


def _replaced(said: Directive, line: str, kept: Sequence[str]) -> Edit:
    """The comment with only these rules."""
    old = line[said.start : said.end]
    if said.kind is Kind.NOQA:
        head = re.match(r"#\s*noqa\s*:\s*", old, re.IGNORECASE)
        assert head is not None
        new = f"{head[0]}{', '.join(kept)}"
    else:
        new = f"{old[: old.index('[')]}[{', '.join(kept)}]"
    return Edit(Span(Position(said.row, said.start + 1), Position(said.row, said.end + 1)), new)
