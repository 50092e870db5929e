"""How a path is shown: one way in every format."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer.findings import Position, Span

if TYPE_CHECKING:
    from gafixer.findings import Place

__all__ = ["Names", "physical", "said"]


@dataclass(frozen=True, slots=True)
class Names:
    """Names paths for a reader who stands in `directory` (absolute)."""

    directory: str

    def relative(self, path: str) -> str:
        """Relative to the directory, with forward slashes; bytes that are no UTF-8 become U+FFFD."""
        absolute = os.path.normpath(Path(self.directory, path))
        try:
            name = os.path.relpath(absolute, self.directory)
        except ValueError:  # another drive
            name = absolute
        return _text(name)

    def short(self, path: str) -> str:
        """Relative when the path lies in the directory, absolute otherwise: for people."""
        name = self.relative(path)
        if name == ".." or name.startswith("../"):
            return _text(os.path.normpath(Path(self.directory, path)))
        return name

    def row(self, place: Place) -> str:
        """The row of a place: `path:row`, in a notebook `path:cell N:row`."""
        cell = "" if place.cell is None else f"cell {place.cell}:"
        return f"{self.relative(place.filename)}:{cell}{place.span.start.row}"


def physical(place: Place) -> Span:
    """Where a place is in its file, for formats that know files only. In a notebook nobody can say: its beginning."""
    if place.cell is None:
        return place.span
    return Span(Position(1, 1), Position(1, 2))


def said(place: Place, text: str) -> str:
    """What is said of a place, for formats that know files only: in a notebook the cell and the row come first."""
    if place.cell is None:
        return text
    start = place.span.start
    return f"cell {place.cell}:{start.row}:{start.column}: {text}"


def _text(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "replace").replace(os.sep, "/")
