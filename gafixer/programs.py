"""The kinds of files: what Python program one holds, where a place of the program is in it, and how it takes a fix."""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gafixer.analysis.source import UnreadableError
    from gafixer.findings import Edit, Finding

__all__ = ["Opened", "Script", "is_notebook", "opened", "readable"]

_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")


class Opened(Protocol):
    """A file that was read."""

    @property
    def code(self) -> bytes:
        """The Python program that it holds."""
        ...

    def sound(self) -> tuple[Opened, tuple[UnreadableError, ...]]:
        """The file without those of its parts that are no Python while others are; and why they aren't."""
        ...

    def placed(self, finding: Finding) -> Finding:
        """A finding of the program, with its places and edits where people see them in the file."""
        ...

    def text(self, cell: int | None) -> str:
        """The text in which the rows of such places count."""
        ...

    def row(self, cell: int | None, row: int) -> int:
        """The program's row for such a row.

        Raises:
            UnreadableError: no Python of the file has this place.
        """
        ...

    def label(self, row: int) -> str:
        """What a row of the program is called."""
        ...

    def content(self, old: str, new: str) -> bytes:
        """The file's bytes once the program's text `old` has become `new`."""
        ...

    def patch(self, old: str, new: str, name: str) -> str:
        """That change for a reader, in a file called `name`."""
        ...


def is_notebook(path: str) -> bool:
    """Whether the name is that of a notebook."""
    return path.endswith(".ipynb")


def opened(source: bytes, path: str) -> Opened:
    """A file by its kind, which its name tells.

    Raises:
        UnreadableError: it is called a notebook, and is none that can be read.
    """
    if is_notebook(path):
        from gafixer.notebooks.notebook import Notebook

        return Notebook.read(source, path)
    return Script(source)


def readable(source: bytes, path: str) -> Opened:
    """A file by its kind, for showing it: as mere text, where it is not what its name says."""
    if not is_notebook(path):
        return Script(source)
    from gafixer.analysis.source import UnreadableError

    try:
        return opened(source, path)
    except UnreadableError:
        return Script(source)


@dataclass(frozen=True, slots=True)
class Script:
    """A file of Python: its own program."""

    code: bytes

    def sound(self) -> tuple[Opened, tuple[UnreadableError, ...]]:
        """See `Opened`. It has no parts."""
        return self, ()

    def placed(self, finding: Finding) -> Finding:
        """See `Opened`."""
        return finding

    def text(self, cell: int | None) -> str:
        """See `Opened`. What can't be decoded becomes U+FFFD."""
        import tokenize

        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(self.code).readline)
        except SyntaxError:
            encoding = "utf-8"
        return self.code.decode(encoding, "replace")

    def row(self, cell: int | None, row: int) -> int:
        """See `Opened`."""
        return row

    def label(self, row: int) -> str:
        """See `Opened`."""
        return str(row)

    def content(self, old: str, new: str) -> bytes:
        """See `Opened`. BOM, encoding and the ends of all lines that stay stay; new ones end as most lines do."""
        from gafixer.codemod import edits

        return _encoded(self.code, edits.between(old, new))

    def patch(self, old: str, new: str, name: str) -> str:
        """See `Opened`. It is one that git applies."""
        from gafixer.codemod import edits

        return edits.unified(old, new, f"a/{name}", f"b/{name}")


def _encoded(source: bytes, made: Iterable[Edit]) -> bytes:
    """A file's bytes with edits of whole lines made."""
    import tokenize

    mark = b"\xef\xbb\xbf" if source.startswith(b"\xef\xbb\xbf") else b""
    encoding = tokenize.detect_encoding(io.BytesIO(source).readline)[0].removesuffix("-sig")
    lines = [line for line in _END.split(source[len(mark) :].decode(encoding)) if line]
    ends = Counter(line[len(line.rstrip("\r\n")) :] for line in lines)
    end = max((e for e in ends if e), key=lambda e: ends[e], default="\n")
    for edit in sorted(made, key=lambda e: e.span, reverse=True):
        last = edit.span.end.row - 1 + (edit.span.end.column > 1)
        content = edit.content.replace("\n", end)
        lines[edit.span.start.row - 1 : last] = [content]
    return mark + "".join(lines).encode(encoding)
