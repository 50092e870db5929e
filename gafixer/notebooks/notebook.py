"""A notebook as a kind of file."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gafixer.analysis.source import UnreadableError
from gafixer.codemod import edits
from gafixer.findings import Edit, Finding, Fix, Place, Position, Related, Span
from gafixer.notebooks.document import with_cells
from gafixer.notebooks.program import Program, broken, program

__all__ = ["Notebook"]


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook: its program is that of all its Python cells, one below the other."""

    path: str
    document: str
    program: Program
    mark: bytes

    @classmethod
    def read(cls, source: bytes, path: str) -> Notebook:
        """Read a document.

        Raises:
            UnreadableError: it is no notebook that can be read.
        """
        mark = b"\xef\xbb\xbf" if source.startswith(b"\xef\xbb\xbf") else b""
        try:
            document = source[len(mark) :].decode("utf-8")
        except UnicodeDecodeError as error:
            raise UnreadableError(f"not utf-8: {error.reason}", source.count(b"\n", 0, error.start) + 1) from error
        return cls(path, document, program(document), mark)

    @property
    def code(self) -> bytes:
        """See `Opened`."""
        return self.program.text.encode()

    def sound(self) -> tuple[Notebook, tuple[UnreadableError, ...]]:
        """See `Opened`. A cell that is no Python does not keep the others from running."""
        errors = broken(self.program)
        if not errors:
            return self, ()
        return replace(self, program=program(self.document, errors)), tuple(errors.values())

    def placed(self, finding: Finding) -> Finding:
        """See `Opened`. Rows count in the cell."""
        return replace(
            finding,
            place=self._place(finding.place),
            related=tuple(Related(r.role, self._place(r.place), r.message) for r in finding.related),
            fix=finding.fix and self._fix(finding.fix),
        )

    def _place(self, place: Place) -> Place:
        """The same place in a cell; places of other files stay. A span that leaves its cell ends with its first row."""
        if place.filename != self.path:
            return place
        start, end = place.span.start, place.span.end
        cell = self.program.cell(start.row)
        if self.program.cell(end.row) != cell:
            end = replace(start, column=start.column + 1)
        return Place(place.filename, Span(self.program.position(start), self.program.position(end)), cell.number)

    def _fix(self, fix: Fix) -> Fix | None:
        """The same change as edits of cells; None where that can't be. Edits of other files stay."""
        own = [edit for edit in fix.edits if edit.filename is None]
        if not own:
            return fix
        try:
            cells = self.program.changed(edits.apply(self.program.text, own))
        except ValueError:  # it can't be made here
            return None
        made = [(number, edit) for number, new in cells.items() for edit in edits.between(self.text(number), new)]
        others = tuple(edit for edit in fix.edits if edit.filename is not None)
        return replace(fix, edits=(*(Edit(edit.span, edit.content, number) for number, edit in made), *others))

    def text(self, cell: int | None) -> str:
        """See `Opened`."""
        return next((c.text for c in self.program.cells if c.number == cell), "")

    def row(self, cell: int | None, row: int) -> int:
        """See `Opened`."""
        if cell is None:
            raise UnreadableError(f"a notebook: name the cell too, as in {self.path}:cell 3:{row}")
        return self.program.row(cell, row)

    def label(self, row: int) -> str:
        """See `Opened`."""
        place = self.program.position(Position(row, 1))
        return f"cell {self.program.cell(row).number}:{place.row}"

    def content(self, old: str, new: str) -> bytes:
        """See `Opened`. Only lines of sources change."""
        return self.mark + with_cells(self.document, self.program.changed(new)).encode()

    def patch(self, old: str, new: str, name: str) -> str:
        """See `Opened`. Cell by cell, as ruff shows it."""
        cells = ((f"{name}:cell {number}", number, text) for number, text in self.program.changed(new).items())
        return "".join(edits.unified(f"{self.text(number)}\n", f"{text}\n", name, name) for name, number, text in cells)
