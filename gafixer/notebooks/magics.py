"""What IPython understands and Python doesn't: magics, shell lines, help. Hidden for the analysis, then put back.

Each stands behind a string of as many lines, which the codemod keeps whole wherever it moves or indents it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Hidden", "python_from"]

#: Cell magics whose body is Python of this very namespace; the body of every other one is something else.
_PYTHON = frozenset({"capture", "prun", "python", "python3", "time", "timeit"})

_CELL = re.compile(r"\s*%%(?P<name>\w[\w.]*)[^\n]*(?:\n|\Z)")
_ESCAPE = re.compile(r"(?P<before>[ \t]*)(?P<hidden>[%!?,;/](?:[^\n\\]|\\\n?)*)")
_HELP = re.compile(r"(?P<before>[ \t]*)(?P<hidden>[A-Za-z_*][\w.*\[\]]*\?\??)(?=[ \t]*(?:#|\n|\Z))")
_ASSIGNED = re.compile(r"(?P<before>[ \t]*[A-Za-z_][\w.,\[\]\"' \t]*=)[ \t]*(?P<hidden>[%!](?!=)(?:[^\n\\]|\\\n?)*)")
_SUSPECT = re.compile(r"^[ \t]*[%!?,;/]|\?[ \t]*(?:#.*)?$|=[ \t]*[%!]", re.MULTILINE)
_TOKEN = re.compile(
    r"\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
    r"|\#[^\n]*|\\\n|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<end>\n)",
    re.DOTALL,
)
_SHOWN = re.compile(r'(?: get_ipython\()?"""gafixer ipython (\d+)\n*"""\)?')


def python_from(cell: str) -> int | None:
    """Where the Python of a cell begins: past its cell magics. None: it is a cell of something else."""
    position = 0
    while magic := _CELL.match(cell, position):
        if magic["name"] not in _PYTHON:
            return None
        position = magic.end()
    return position


@dataclass(slots=True)
class Hidden:
    """Hides what is no Python in cell after cell, and remembers it."""

    _kept: list[str] = field(default_factory=list)

    def hide(self, cell: str) -> str:
        """The cell as Python, with as many lines."""
        if _SUSPECT.search(cell) is None:
            return cell
        made = []
        position = 0
        while position < len(cell):
            if found := _ESCAPE.match(cell, position) or _HELP.match(cell, position):
                made.append(found["before"] + self._keep(found["hidden"]))
                position = found.end()
            elif found := _ASSIGNED.match(cell, position):
                hidden = self._keep(cell[found.end("before") : found.end()])
                made.append(f"{found['before']} get_ipython({hidden})")
                position = found.end()
            end = _statement_end(cell, position)
            made.append(cell[position:end])
            position = end
        return "".join(made)

    def show(self, program: str) -> str:
        """The program with everything put back.

        Raises:
            ValueError: something is missing, or there twice.
        """
        seen = []

        def back(match: re.Match[str]) -> str:
            seen.append(int(match[1]))
            return self._kept[int(match[1])]

        shown = _SHOWN.sub(back, program)
        if sorted(seen) != list(range(len(self._kept))):
            raise ValueError("a magic was lost")
        return shown

    def _keep(self, text: str) -> str:
        self._kept.append(text)
        breaks = "\n" * text.count("\n")
        return f'"""gafixer ipython {len(self._kept) - 1}{breaks}"""'


def _statement_end(cell: str, position: int) -> int:
    """Past the newline that ends the logical line which `position` is in."""
    depth = 0
    for token in _TOKEN.finditer(cell, position):
        match token.lastgroup:
            case "open":
                depth += 1
            case "close":
                depth = max(depth - 1, 0)
            case "end" if not depth:
                return token.end()
            case _:
                pass
    return len(cell)
