"""Text for a terminal: colours, widths, and nothing that scanned code could say to the terminal itself."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

__all__ = ["Style", "columns", "printable"]

_TAB = 4
# Bidirectional controls can show code in another order than it runs.
_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True, slots=True)
class Style:
    """Paints, or doesn't."""

    colour: bool

    def __call__(self, text: str, fg: str | None = None, *, bold: bool = False) -> str:
        """`text` in a colour of the terminal's own palette."""
        if not self.colour or not text:
            return text
        from click import style

        return style(text, fg=fg, bold=bold or None)


def _shown(character: str) -> str:
    if character < " ":
        return chr(0x2400 + ord(character))
    if character == "\x7f":
        return "\u2421"
    if "\x80" <= character <= "\x9f" or character in _REORDERING or "\ud800" <= character <= "\udfff":
        return "\ufffd"
    if character in "\u2028\u2029":
        return "\ufffd"
    return character


def printable(text: str) -> str:
    """`text` with every control character replaced by a visible one: it fits one line and moves no cursor."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


def columns(line: str) -> tuple[list[str], list[int]]:
    """What is shown for each character of a line, and the terminal column where each begins, and the line ends."""
    if line.isascii() and line.isprintable():
        return list(line), list(range(len(line) + 1))
    cells, starts, column = [], [], 0
    for character in line:
        starts.append(column)
        width = _TAB - column % _TAB
        cell = " " * width if character == "\t" else _shown(character)
        cells.append(cell)
        column += width if character == "\t" else _width(cell)
    return cells, [*starts, column]


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
