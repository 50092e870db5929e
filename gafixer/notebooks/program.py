"""A notebook as one program over its Python cells, and a changed program as changes of cells."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis.source import UnreadableError, syntax_error
from gafixer.findings import Position
from gafixer.notebooks import BOUNDARY
from gafixer.notebooks.document import code_cells
from gafixer.notebooks.magics import Hidden, python_from

if TYPE_CHECKING:
    from collections.abc import Container

__all__ = ["Cell", "Program", "broken", "program"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the program: its number among all cells of the notebook, from 1, and its text.

    `head` is what stands above its Python: cell magics. `row` is the program's row where its Python begins.
    """

    number: int
    text: str
    head: str
    row: int


@dataclass(frozen=True, slots=True)
class Program:
    """The program, and what it takes to get back from it to the cells."""

    text: str
    cells: tuple[Cell, ...]
    hidden: Hidden

    def cell(self, row: int) -> Cell:
        """The cell that a row of the program belongs to."""
        return self.cells[max(bisect.bisect_right(self.cells, row, key=lambda cell: cell.row) - 1, 0)]

    def position(self, position: Position) -> Position:
        """A position of the program, in the rows of its cell."""
        cell = self.cell(position.row)
        row = position.row - cell.row + 1 + cell.head.count("\n")
        return Position(min(row, cell.text.count("\n") + 1), position.column)

    def row(self, number: int, row: int) -> int:
        """The program's row for a row of a cell, by its number.

        Raises:
            UnreadableError: it is no Python cell.
        """
        for cell in self.cells:
            if cell.number == number:
                return max(cell.row + row - 1 - cell.head.count("\n"), cell.row)
        raise UnreadableError(f"cell {number} holds no Python")

    def changed(self, text: str) -> dict[int, str]:
        """The new texts of the cells that another text of the program changes, by their number.

        Raises:
            ValueError: a cell or a magic was lost on the way.
        """
        parts = self.hidden.show(text).split(f"{BOUNDARY}\n")
        if len(parts) != len(self.cells):
            raise ValueError("a cell was lost")
        made = ((cell, cell.head + _trimmed(part, cell)) for cell, part in zip(self.cells, parts, strict=True))
        return {cell.number: new for cell, new in made if new != cell.text}


def broken(program: Program) -> dict[int, UnreadableError]:
    """The cells that are no Python, by their number; the rows of the errors count in the program."""
    if syntax_error(program.text.encode()) is None:
        return {}
    errors = {}
    lines = program.text.split("\n")
    for cell, following in zip(program.cells, [*program.cells[1:], None], strict=True):
        end = len(lines) if following is None else following.row - 2
        error = syntax_error("\n".join(lines[cell.row - 1 : end]).encode())
        if error is not None:
            errors[cell.number] = UnreadableError(error.message, cell.row + error.row - 1, error.column)
    return errors


def program(document: str, without: Container[int] = ()) -> Program:
    """The program of a notebook, without the cells of some numbers.

    Raises:
        UnreadableError: it is no notebook that can be read.
    """
    hidden = Hidden()
    cells: list[Cell] = []
    parts: list[str] = []
    row = 1
    for code in code_cells(document):
        start = python_from(code.text)
        if start is None or code.number in without:
            continue
        if parts:
            parts.append(f"{BOUNDARY}\n")
            row += 1
        parts.append(f"{hidden.hide(code.text[start:])}\n")
        cells.append(Cell(code.number, code.text, code.text[:start], row))
        row += parts[-1].count("\n")
    return Program("".join(parts), tuple(cells), hidden)


def _trimmed(part: str, cell: Cell) -> str:
    """A cell's part of the program as its text: blank lines at its ends that the codemod set against neighbours go."""
    old, new = cell.text[len(cell.head) :], part.removesuffix("\n")
    if old.strip("\n") == new.strip("\n"):
        return old
    above, below = len(old) - len(old.lstrip("\n")), len(old) - len(old.rstrip("\n"))
    return "\n" * above + new.strip("\n") + "\n" * below
