"""The JSON of a notebook: its code cells, and new text for some of them with every other byte left alone."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gafixer.analysis.source import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Code", "code_cells", "with_cells"]

_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class Code:
    """A code cell: its number among all cells, from 1, and its text with newlines as line ends."""

    number: int
    text: str


def code_cells(document: str) -> tuple[Code, ...]:
    """The code cells of a notebook; none where its language is not Python.

    Raises:
        UnreadableError: it is no JSON, or no notebook of format 4.
    """
    try:
        root = _DECODER.decode(document)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"not a notebook: no JSON ({error.msg})", error.lineno, error.colno) from error
    except RecursionError as error:
        raise UnreadableError("not a notebook: JSON nested too deeply") from error
    if not isinstance(root, dict) or not isinstance(root.get("cells"), list):
        older = isinstance(root, dict) and "worksheets" in root
        raise UnreadableError("a notebook of format 3; format 4 can be read" if older else "not a notebook: no cells")
    if _language(root) not in {"python", "ipython"}:
        return ()
    return tuple(
        Code(number, _text(cell.get("source", "")))
        for number, cell in enumerate(root["cells"], 1)
        if isinstance(cell, dict) and cell.get("cell_type") == "code"
    )


def _language(root: dict[str, Any]) -> str:
    """The notebook's language in lower case; Python where it does not say."""
    metadata = root.get("metadata")
    for table, key in (("language_info", "name"), ("kernelspec", "language")):
        said = metadata.get(table) if isinstance(metadata, dict) else None
        if isinstance(said, dict) and isinstance(said.get(key), str):
            return str(said[key]).lower()
    return "python"


def _text(source: object) -> str:
    """A source is a string, or a list of strings that are joined."""
    parts = source if isinstance(source, list) else [source]
    joined = "".join(part for part in parts if isinstance(part, str))
    # A lone surrogate is legal in JSON and in no encoding of a source.
    joined = joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return joined.replace("\r\n", "\n").replace("\r", "\n")


def with_cells(document: str, texts: Mapping[int, str]) -> str:
    """The document with new texts for cells, by their number. Lines that stay keep their spelling."""
    made, last = [], 0
    for number, (start, end) in enumerate(_sources(document), 1):
        if number in texts and start < end:
            made += [document[last:start], _spelled(document[start:end], texts[number], ascii_only=document.isascii())]
            last = end
    return "".join([*made, document[last:]])


def _spelled(source: str, text: str, *, ascii_only: bool) -> str:
    """The JSON of a cell's source with another text: a string stays a string, a list keeps its layout."""

    def dumped(line: str) -> str:
        return json.dumps(line, ensure_ascii=ascii_only)

    old = _DECODER.decode(source)
    if "\r\n" in "".join(old):
        text = text.replace("\n", "\r\n")
    if isinstance(old, str):
        return dumped(text)
    spans = list(_elements(source, 0))
    if not spans:
        return f"[{dumped(text)}]"
    before = source[1 : spans[0][0]]
    between = source[spans[0][1] : spans[1][0]] if len(spans) > 1 else f",{before}"
    new = [line for line in re.split(r"(?<=\n)", text) if line]
    lines = []
    for tag, start, end, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        same = [source[slice(*span)] for span in spans[start:end]]
        lines += same if tag == "equal" else [dumped(line) for line in new[first:last]]
    return f"[{before}{between.join(lines)}{source[spans[-1][1] :]}"


def _sources(document: str) -> Iterator[tuple[int, int]]:
    """Where each cell's source stands in the document; an empty span for a cell without one."""
    cells = next((start for key, start, _ in _members(document, _skip(document, 0)) if key == "cells"), None)
    for start, _ in () if cells is None else _elements(document, cells):
        spans = [(s, e) for key, s, e in _members(document, start) if key == "source"]
        yield spans[-1] if spans else (start, start)


def _skip(document: str, position: int) -> int:
    space = _SPACE.match(document, position)
    return space.end() if space else position


def _members(document: str, position: int) -> Iterator[tuple[str, int, int]]:
    """The members of the object that begins at `position`: key, and where the value begins and ends."""
    position = _skip(document, position + 1)
    while document[position] != "}":
        key, position = _DECODER.raw_decode(document, position)
        start = _skip(document, _skip(document, position) + 1)
        _, end = _DECODER.raw_decode(document, start)
        yield key, start, end
        position = _skip(document, end)
        if document[position] == ",":
            position = _skip(document, position + 1)


def _elements(document: str, position: int) -> Iterator[tuple[int, int]]:
    """Where the elements of the array that begins at `position` begin and end."""
    position = _skip(document, position + 1)
    while document[position] != "]":
        _, end = _DECODER.raw_decode(document, position)
        yield position, end
        position = _skip(document, end)
        if document[position] == ",":
            position = _skip(document, position + 1)
