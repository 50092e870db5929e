"""Where something stands in a file."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Spot"]


class Spot(NamedTuple):
    """A place as `ast` gives it: rows count from 1, columns are UTF-8 bytes from 0."""

    path: str
    row: int
    column: int
    end_row: int
    end_column: int
