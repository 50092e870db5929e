"""Where in a TOML file a key or a value stands: the reader of TOML keeps no places."""

from __future__ import annotations

import re

from gafixer.settings.toml import TomlError, parse

__all__ = ["row_of"]

_HEADER = re.compile(r"\s*\[+(?P<key>[^\]]+)\]+\s*(#.*)?$")
_ENTRY = re.compile(r"\s*(?P<key>(?:[\w-]+|\"[^\"]*\"|'[^']*'|\s*\.\s*)+?)\s*=")
_QUOTES = re.compile(r"\"\"\"|'''")


def row_of(text: str, path: tuple[str, ...], value: str | None = None) -> int | None:
    """The row, from 1, of what stands under `path`, or from there on the first that holds the quoted `value`.

    None: it can't be told.
    """
    lines = text.split("\n")
    found = _entry(lines, path)
    if found is None:
        return None
    row, depth = found
    # What is deeper than the entry stands inside its value: an inline table, or an array over several lines.
    for word in (*path[depth:], *([] if value is None else [value])):
        row = next((r for r in range(row, len(lines) + 1) if _holds(lines[r - 1], word)), row)
    return row


def _entry(lines: list[str], path: tuple[str, ...]) -> tuple[int, int] | None:
    """The row of the entry that is or holds `path`, and how many parts of the path it names; a header else."""
    table: tuple[str, ...] = ()
    best: tuple[int, int] | None = None
    inside = False  # a string of several lines, whose lines may look like entries
    for row, line in enumerate(lines, 1):
        before, inside = inside, inside != (len(_QUOTES.findall(line)) % 2 == 1)
        if before:
            continue
        if header := _HEADER.match(line):
            table = here = _parts(header["key"])
        elif entry := _ENTRY.match(line):
            here = (*table, *_parts(entry["key"]))
        else:
            continue
        depth = min(len(here), len(path))
        if here[:depth] == path[:depth] and (best is None or depth > best[1]):
            best = (row, depth)
    return best


def _parts(key: str) -> tuple[str, ...]:
    """The parts of a dotted key, read as TOML reads it; none where it is no key."""
    try:
        table: object = parse(f"{key} = 0")
    except TomlError:  # a line inside a string that only looks like an entry
        return ("",)
    parts = []
    while isinstance(table, dict):
        ((part, table),) = table.items()
        parts.append(part)
    return tuple(parts)


def _holds(line: str, word: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", line) is not None
