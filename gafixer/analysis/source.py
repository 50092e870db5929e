"""Source text and the modules made of it. A module is cut at its top-level blocks; a block is parsed when asked for."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from gafixer.analysis.spot import Spot
from gafixer.findings import Place, Position, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


__all__ = ["Block", "Module", "UnreadableError", "decode", "syntax_error"]

#: What is found out about a module.
Fact = TypeVar("Fact")
#: The module as it is written, and the name in it; None: the module itself.
Import: TypeAlias = "tuple[str, str | None]"

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_HEAD = re.compile(r"(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)|(\w+)[ \t]*(?::[^=\n]*)?=[^=]")
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+[.\w]+[ \t]*import\b|import[ \t])", re.MULTILINE)
#: What may be an import statement from its ``import`` on: to the end of the line, or of the lines that it takes.
_IMPORTING = re.compile(r"import\b(?:[^\n\\(]|\\\n?|\((?:[^)#]|#.*)*\)?)*")
_STARRED = re.compile(r"import[ \t\\\n]*\*")
_WORD = re.compile(r"\w+|\*")
_DECORATED = re.compile(r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.MULTILINE)
_DEFINITION = re.compile(r"^(?:def|class|async)\b", re.MULTILINE)
_START = re.compile(r"^(?![ \t\f\n#)\]}]|else\b|elif\b|except\b|finally\b)", re.MULTILINE)


class UnreadableError(Exception):
    """Source that is no Python: `message` says why, `row` and `column` (from 1) where."""

    def __init__(self, message: str, row: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message, self.row, self.column = message, row, column


def decode(source: bytes) -> str:
    """Bytes to text by the file's BOM or coding comment, UTF-8 otherwise.

    Raises:
        UnreadableError: the bytes are not in that encoding, or hold NUL.
    """
    encoding = "utf-8"
    if source.startswith(b"\xef\xbb\xbf"):
        source = source[3:]
    elif b"coding" in (head := source[:400]):
        for line in head.splitlines()[:2]:
            if found := _COOKIE.match(line):
                encoding = found[1].decode("ascii")
                break
    try:
        decoded = source.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        start = getattr(error, "start", 0)
        raise UnreadableError(f"not {encoding}: {_reason(error)}", source.count(b"\n", 0, start) + 1) from error
    if "\0" in decoded:
        raise UnreadableError("NUL character in the source", decoded.count("\n", 0, decoded.index("\0")) + 1)
    return decoded.replace("\r\n", "\n").replace("\r", "\n") if "\r" in decoded else decoded


def _reason(error: Exception) -> str:
    return error.reason if isinstance(error, UnicodeDecodeError) else str(error)


def _told(message: str) -> str:
    """A syntax error as it is shown: what a newer Python may read is said to be this one's."""
    if message.startswith("f-string") and sys.version_info < (3, 12):
        return f"{message} (to Python {sys.version_info[0]}.{sys.version_info[1]}, on which gafixer runs here)"
    return message


def parse(source: str, first_row: int = 1) -> list[ast.stmt]:
    """Statements of `source`, whose first line is line `first_row` of its file.

    Raises:
        UnreadableError: a syntax error, or nesting too deep for the parser.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the scanned file, nobody asked for them
            return ast.parse("\n" * (first_row - 1) + source).body
    except SyntaxError as error:
        raise UnreadableError(_told(error.msg), error.lineno or 1, max(error.offset or 1, 1)) from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise UnreadableError(f"too deeply nested for Python's parser ({type(error).__name__})") from error


def syntax_error(source: bytes) -> UnreadableError | None:
    """Why the file is no Python, or None."""
    try:
        parse(decode(source))
    except UnreadableError as error:
        return error
    return None


@dataclass(slots=True)
class Block:
    """A top-level statement, or a few: where it stands, the name that it defines, and its nodes once parsed."""

    source: str
    start: int
    end: int
    row: int
    name: str | None
    nodes: list[ast.stmt] | None = None
    broken: bool = False
    _bound: dict[str, list[ast.stmt]] | None = None
    _imports: dict[str, Import] | None = None

    @property
    def text(self) -> str:
        """Its part of the source."""
        return self.source[self.start : self.end]

    def parsed(self) -> list[ast.stmt]:
        """The statements; none where the block by itself is not valid."""
        if self.nodes is None:
            try:
                self.nodes = parse(self.text, self.row)
            except UnreadableError:
                self.nodes, self.broken = [], True
        return self.nodes

    def bound(self) -> dict[str, list[ast.stmt]]:
        """Name -> the statements that define it, in order; those under ``if``, ``try`` and ``with`` included."""
        if self._bound is None:
            self._bound = {}
            for node in _flat(self.parsed()):
                for name in _binds(node):
                    self._bound.setdefault(name, []).append(node)
        return self._bound

    def imports(self) -> dict[str, Import]:
        """Local name -> what is imported under it. ``*`` maps each starred module to itself."""
        if self._imports is None:
            self._imports = {}
            for node in _walk_imports(self.parsed()):
                self._imports.update(_import_names(node))
        return self._imports


class _Reader:
    """Reads a block line by line at the margin: whether it is over. Each character is read once."""

    def __init__(self) -> None:
        self._pieces = 0
        self._last = self._first = ""
        self._defines = False
        self._counts = dict.fromkeys(('"""', "'''", *"()[]{}"), 0)

    def read(self, piece: str) -> None:
        """The next line at the margin, with what is indented below it."""
        self._pieces += 1
        self._first, self._last = self._first or piece, piece
        self._defines = self._defines or _DEFINITION.match(piece) is not None
        for mark in self._counts:
            self._counts[mark] += piece.count(mark)

    def goes_on(self, following: str) -> bool:
        """Whether a string or a bracket is open, or decorators wait for what they decorate."""
        counts = self._counts
        if counts['"""'] % 2 or counts["'''"] % 2 or self._last.rstrip().endswith("\\"):
            return True
        if self._first.startswith("@") and not self._defines:
            return True
        # Brackets in strings and comments are counted too; no definition or decorator stands inside real ones.
        return (
            _DEFINITION.match(following) is None
            and not following.startswith("@")
            and any(counts[a] > counts[b] for a, b in ("()", "[]", "{}"))
        )

    def name(self, block: str) -> str | None:
        """What the block defines; None where it must be looked into, because it may be more than one thing."""
        decorated = self._first.startswith("@")
        if self._pieces > 1 and not decorated:
            return None
        head = _DECORATED.search(block) if decorated else _HEAD.match(block)
        return head[head.lastindex or 1] if head else None


def _cut(source: str) -> Iterator[Block]:
    """Top-level blocks; one that the next line at the margin goes on with is joined with it."""
    starts = [m.start() for m in _START.finditer(source) if m.start() < len(source)] or [0]
    starts[0] = 0
    row, begin, last, reader = 1, 0, 0, _Reader()
    for end in [*starts[1:], len(source)]:
        reader.read(source[last:end])
        last = end
        if end < len(source) and reader.goes_on(source[end : end + 6]):
            continue
        block = source[begin:end]
        yield Block(source, begin, end, row, reader.name(block))
        row += block.count("\n")
        begin, reader = end, _Reader()


def _all_of(source: str) -> Block:
    """One block of a whole file, parsed."""
    return Block(source, 0, len(source), 1, None, parse(source))


@dataclass(slots=True)
class Module:
    """A file of the project: what its top level defines, and its lines for messages.

    `name` is dotted; `path` is what findings and spots carry.
    """

    name: str
    path: str
    source: str
    is_package: bool = False
    _blocks: list[Block] | None = None
    _named: dict[str, list[Block]] | None = None
    _importing: dict[str, list[Block]] | None = None
    _lines: list[str] | None = None
    _facts: dict[object, object] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str, path: str, source: bytes, *, whole: bool, is_package: bool = False) -> Module:
        """Make a module of a file's bytes; `whole` parses all of it at once and so finds every syntax error.

        Raises:
            UnreadableError: the file does not decode or (where `whole`) does not parse.
        """
        decoded = decode(source)
        return cls(name, path, decoded, is_package, [_all_of(decoded)] if whole else None)

    @property
    def blocks(self) -> list[Block]:
        """What the source is cut into, when that is first asked: a name is often sought where it does not occur."""
        if self._blocks is None:
            self._blocks = list(_cut(self.source))
        return self._blocks

    def whole(self) -> list[ast.stmt]:
        """All top-level statements, of a source that is Python from its first line to its last.

        Raises:
            UnreadableError: it isn't.
        """
        if self.broken or any(block.nodes is None for block in self.blocks):
            return parse(self.source)
        return self.statements()

    def changed(self, source: str) -> Module:
        """The same module with other text.

        Raises:
            UnreadableError: the text does not parse.
        """
        return Module(self.name, self.path, source, self.is_package, [_all_of(source)])

    @property
    def broken(self) -> bool:
        """Whether a block that was looked at is no valid Python by itself."""
        return any(block.broken for block in self._blocks or ())

    def defined(self, name: str) -> list[ast.stmt]:
        """The top-level statements that define a name, in order."""
        if name not in self.source:
            return []
        if self._named is None:
            self._named = {}
            for block in self.blocks:
                self._named.setdefault(block.name or "", []).append(block)
        unnamed = (block for block in self._named.get("", ()) if name in block.text)
        found = [node for block in unnamed for node in block.bound().get(name, ())]
        for block in self._named.get(name, ()):
            found += [node for node in block.parsed() if name in _binds(node)]
        return found

    def classes(self, name: str) -> list[ast.ClassDef]:
        """The top-level classes of a name: more than one where a condition decides."""
        return [node for node in self.defined(name) if isinstance(node, ast.ClassDef)]

    def definitions(self) -> list[str]:
        """The names that top-level statements define."""
        named = [block.name for block in self.blocks if block.name is not None]
        return [*named, *(name for block in self.blocks if block.name is None for name in block.bound())]

    def imports(self) -> dict[str, Import]:
        """Local name -> what is imported under it. ``*`` maps each starred module to itself."""
        found: dict[str, Import] = {}
        for block in self.blocks:
            if block.nodes is not None or _IMPORT.search(block.text):
                found.update(block.imports())
        return found

    def imported(self, name: str) -> Import | None:
        """What is imported under a name, or None."""
        found = (block.imports().get(name) for block in reversed(self.importers(name)))
        return next((given for given in found if given is not None), None)

    def starred(self) -> list[str]:
        """The modules of which everything is imported, as written."""
        return self.once(_starred)

    def importers(self, name: str) -> list[Block]:
        """The blocks that may import a name, by their text: the others need not be parsed for it."""
        if name not in self.source:
            return []
        if self._importing is None:
            self._importing = {}
            for block in self.blocks:
                text = "\n".join(_IMPORTING.findall(block.text)) if "import" in block.text else ""
                for word in set(_WORD.findall(text)):
                    self._importing.setdefault(word, []).append(block)
        return self._importing.get(name, [])

    def once(self, make: Callable[[Module], Fact]) -> Fact:
        """What `make` finds out about this module. It is asked once, however many runs want to know."""
        if make not in self._facts:
            self._facts[make] = make(self)
        return cast("Fact", self._facts[make])

    def statements(self) -> list[ast.stmt]:
        """All top-level statements."""
        return [node for block in self.blocks for node in block.parsed()]

    def line(self, row: int) -> str:
        """The text of a line, without its end. Rows split at newlines only: a form feed is no line end."""
        if self._lines is None:
            self._lines = self.source.split("\n")
        return self._lines[row - 1] if 0 < row <= len(self._lines) else ""

    def text(self, first: int, last: int) -> str:
        """The text of some lines, the last one without its end."""
        self.line(1)
        return "\n".join((self._lines or [])[first - 1 : last])

    def line_spot(self, position: int) -> Spot:
        """The line that holds a position of the source, without its indentation."""
        row = self.source.count("\n", 0, position) + 1
        line = self.line(row)
        start = len(line) - len(line.lstrip())
        return Spot(self.path, row, start, row, len(line.rstrip().encode()))

    def place(self, spot: Spot) -> Place:
        """A spot of this module in characters instead of bytes."""
        return Place(
            self.path,
            Span(self._position(spot.row, spot.column), self._position(spot.end_row, spot.end_column)),
        )

    def _position(self, row: int, column: int) -> Position:
        line = self.line(row)
        if not line.isascii():
            column = len(line.encode()[:column].decode(errors="replace"))
        return Position(row, column + 1)


def _starred(module: Module) -> list[str]:
    importers = module.importers("*") if _STARRED.search(module.source) else ()
    found = (block.imports().items() for block in importers)
    return list(dict.fromkeys(base for names in found for local, (base, _) in names if local.startswith("*")))


def _flat(nodes: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Top-level statements, those under ``if``, ``try`` and ``with`` included."""
    stack = nodes[::-1]
    while stack:
        node = stack.pop()
        match node:
            case ast.If(body=body, orelse=orelse):
                stack += orelse[::-1] + body[::-1]
            case ast.Try(body=body, handlers=handlers, orelse=orelse):
                for handler in reversed(handlers):
                    stack += handler.body[::-1]
                stack += orelse[::-1] + body[::-1]
            case ast.With(body=body):
                stack += body[::-1]
            case _:
                yield node


def _binds(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def _walk_imports(nodes: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports anywhere at the top level or inside functions; the latter are as good for naming things."""
    stack: list[ast.AST] = list(reversed(nodes))
    while stack:
        node = stack.pop()
        match node:
            case ast.Import() | ast.ImportFrom():
                yield node
            case ast.Expr() | ast.Assign() | ast.Return() | ast.AugAssign() | ast.AnnAssign():
                pass
            case _ if hasattr(node, "body"):
                for part in ("body", "orelse", "finalbody", "handlers"):
                    block = getattr(node, part, None)
                    if isinstance(block, list):
                        stack += reversed(block)
            case _:
                pass


def _import_names(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Import]]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield (
                    (alias.asname, (alias.name, None))
                    if alias.asname
                    else (
                        alias.name.partition(".")[0],
                        (alias.name.partition(".")[0], None),
                    )
                )
        case ast.ImportFrom(module=module, names=names, level=level):
            base = "." * level + (module or "")
            for alias in names:
                if alias.name == "*":
                    yield f"*{base}", (base, None)
                else:
                    yield alias.asname or alias.name, (base, alias.name)
