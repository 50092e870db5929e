"""Edits are the difference between a file and what the codemod made of it: one computation for all that shows them."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING

from gafixer.findings import Edit, Position, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["apply", "between", "between_files", "in_files", "unified"]


def between(old: str, new: str) -> tuple[Edit, ...]:
    """The edits, by whole lines, that make `new` of `old`. Lines end at newlines only."""
    before, after = _lines(old), _lines(new)
    # What both begin and end with is most of a file, and no work to find.
    same = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    rest = min(len(before), len(after)) - same
    ends = next((i for i in range(rest) if before[-1 - i] != after[-1 - i]), rest)
    parts = before[same : len(before) - ends], after[same : len(after) - ends]
    found = []
    for tag, start, end, first, last in difflib.SequenceMatcher(None, *parts, autojunk=False).get_opcodes():
        if tag != "equal":
            span = Span(_position(before, same + start), _position(before, same + end))
            found.append(Edit(span, "".join(parts[1][first:last])))
    return tuple(found)


def apply(old: str, edits: Iterable[Edit]) -> str:
    """`old` with edits made, which do not overlap."""
    lines = _lines(old)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def offset(position: Position) -> int:
        return starts[position.row - 1] + position.column - 1

    for edit in sorted(edits, key=lambda e: e.span, reverse=True):
        old = old[: offset(edit.span.start)] + edit.content + old[offset(edit.span.end) :]
    return old


def between_files(old: Mapping[str, str], new: Mapping[str, str], own: str) -> tuple[Edit, ...]:
    """The edits of several files, by path; those of the file `own` don't name it."""
    return tuple(
        edit if path == own else replace(edit, filename=path)
        for path, text in new.items()
        for edit in between(old[path], text)
    )


def in_files(old: Mapping[str, str], edits: Iterable[Edit], own: str) -> dict[str, str]:
    """The files with edits made; those that name no file belong to `own`."""
    by_file: dict[str, list[Edit]] = {}
    for edit in edits:
        by_file.setdefault(edit.filename or own, []).append(edit)
    return {path: apply(text, by_file.get(path, ())) for path, text in old.items()}


def unified(old: str, new: str, old_name: str, new_name: str) -> str:
    """A patch as git and diff write it."""
    made = []
    for line in difflib.unified_diff(_lines(old), _lines(new), old_name, new_name):
        made.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(made)


def _lines(text: str) -> list[str]:
    """Lines with their ends; a form feed ends none."""
    kept = text.split("\n")
    return [f"{line}\n" for line in kept[:-1]] + ([kept[-1]] if kept[-1] else [])


def _position(lines: list[str], index: int) -> Position:
    """Where a line begins; past the last line, the end of the text."""
    if index < len(lines) or not lines or lines[-1].endswith("\n"):
        return Position(index + 1, 1)
    return Position(len(lines), len(lines[-1]) + 1)
