"""A notebook as one program over its Python cells, and a changed program as changes of cells."""

from __future__ import annotations

import bisect
import re
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


#: Indentation of the first line that isn't blank.
_INDENT = re.compile(r"(?:[ \t]*\n)*([ \t]+)(?=\S)")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the program: its number among all cells of the notebook, from 1, and its text.

    `head` is what stands above its Python: cell magics. `row` is the program's row where its Python begins. `indent` is
    what its first line begins with, which IPython takes off every line that begins with it too.
    """

    number: int
    text: str
    head: str
    row: int
    indent: str = ""

    @property
    def python(self) -> str:
        """Its Python as IPython runs it."""
        return re.sub(rf"^{self.indent}", "", self.text[len(self.head) :], flags=re.MULTILINE)

    def indented(self, python: str) -> str:
        """Its Python as the notebook has it.

        Raises:
            ValueError: not every line was indented, so that nobody knows which are to be.
        """
        if not self.indent:
            return python
        old = self.text[len(self.head) :].split("\n")
        if not all(line.startswith(self.indent) or not line.strip() for line in old):
            raise ValueError("some lines of the cell are indented, others not")
        return re.sub(r"^(?=.*\S)", self.indent, python, flags=re.MULTILINE)


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
        row = min(position.row - cell.row + 1 + cell.head.count("\n"), cell.text.count("\n") + 1)
        cut = len(cell.indent) if cell.text.split("\n")[row - 1].startswith(cell.indent) else 0
        return Position(row, position.column + cut)

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
        indent = _INDENT.match(code.text, start)
        cell = Cell(code.number, code.text, code.text[:start], row, indent[1] if indent else "")
        parts.append(f"{hidden.hide(cell.python)}\n")
        cells.append(cell)
        row += parts[-1].count("\n")
    return Program("".join(parts), tuple(cells), hidden)


def _trimmed(part: str, cell: Cell) -> str:
    """A cell's part of the program as its text: blank lines at its ends that the codemod set against neighbours go."""
    old, new = cell.python, part.removesuffix("\n")
    if old.strip("\n") == new.strip("\n"):
        return cell.text[len(cell.head) :]
    above, below = len(old) - len(old.lstrip("\n")), len(old) - len(old.rstrip("\n"))
    return cell.indented("\n" * above + new.strip("\n") + "\n" * below)
