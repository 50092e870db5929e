"""What plans need to know of a file's syntax: who contains whom, what a name is bound to, the text of a node."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from gafixer.analysis.spot import Spot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

__all__ = ["DEEPEST", "Function", "Tree", "is_docstring", "spelled", "spot_of"]

#: Syntax deeper than this is not rewritten.
DEEPEST = 100

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
_Block = list[ast.stmt]
_PLACED = (ast.expr, ast.stmt)


class Tree:
    """The syntax tree of one file, with parents.

    `beside` gives those of files that a plan may change, too, `derived` the classes of the project that name a class
    as a base. `statements` are what the source was parsed to, if it was.
    """

    def __init__(
        self,
        source: str,
        path: str,
        beside: Callable[[str], Tree | None] = lambda path: None,
        derived: Callable[[str], list[ast.ClassDef]] = lambda name: [],
        statements: list[ast.stmt] | None = None,
    ) -> None:
        self.source = source
        self.path = path
        self.beside = beside
        self.derived = derived
        self.root = ast.Module(statements, []) if statements is not None else ast.parse(source)
        self._lines = source.split("\n")
        self._parents: dict[ast.AST, ast.AST] = {}
        self._begun: dict[int, list[ast.expr | ast.stmt]] = {}
        nodes: list[ast.AST] = [self.root]
        for node in nodes:
            if isinstance(node, _PLACED):
                self._begun.setdefault(node.lineno, []).append(node)
            for child in _children(node):
                self._parents[child] = node
                nodes.append(child)
        self.depth = sum(1 for _ in self.around(nodes[-1])) - 1
        self._others: dict[tuple[str, str], Tree] = {}
        self._nodes: dict[ast.AST, Sequence[ast.AST]] = {self.root: nodes}
        self._bindings: dict[ast.AST, Mapping[str | None, list[ast.stmt]]] = {}
        self._reads: dict[ast.AST, Mapping[str | None, list[ast.expr]]] = {}

    def other(self, path: str, source: str) -> Tree:
        """The tree of a file that is only read, with nothing beside it."""
        if (path, source) not in self._others:
            self._others[path, source] = Tree(source, path)
        return self._others[path, source]

    # -- looking up --------------------------------------------------------------------------------------------------

    def at(self, spot: Spot) -> list[ast.AST]:
        """The nodes that span exactly a spot, outermost first; none where the spot is in another file."""
        if spot.path != self.path:
            return []
        span = (spot.row, spot.column, spot.end_row, spot.end_column)
        return [node for node in self._begun.get(spot.row, ()) if _span(node) == span]

    def expression(self, spot: Spot) -> ast.expr | None:
        """The outermost expression at a spot."""
        return next((node for node in self.at(spot) if isinstance(node, ast.expr)), None)

    def statement(self, spot: Spot) -> ast.stmt | None:
        """The statement at a spot, or the one that an expression there is part of."""
        found = self.at(spot)
        return self.statement_of(found[0]) if found else None

    def parent(self, node: ast.AST) -> ast.AST | None:
        """What a node is directly in."""
        return self._parents.get(node)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """A node and all that contains it, innermost first."""
        here: ast.AST | None = node
        while here is not None:
            yield here
            here = self._parents.get(here)

    def statement_of(self, node: ast.AST) -> ast.stmt | None:
        """The statement that a node is or is part of."""
        return next((n for n in self.around(node) if isinstance(n, ast.stmt)), None)

    def function_of(self, node: ast.AST) -> Function:
        """The function that a node runs in; for a function itself, the one around it."""
        inside = self.around(node)
        next(inside)
        return next((n for n in inside if isinstance(n, Function)), self.root)

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The class whose body, or whose methods, contain a node."""
        return next((n for n in self.around(node) if isinstance(n, ast.ClassDef)), None)

    def contains(self, outer: ast.AST, inner: ast.AST) -> bool:
        """Whether `inner` is `outer` or part of it."""
        return any(node is outer for node in self.around(inner))

    def block(self, statement: ast.stmt) -> _Block:
        """The list of statements that a statement is in."""
        parent = self._parents[statement]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and any(node is statement for node in block):
                return block
        raise LookupError(f"line {statement.lineno} is in no block")

    def within(self, statement: ast.stmt, block: _Block) -> ast.stmt | None:
        """The statement of a block that contains a statement."""
        around = {id(node) for node in self.around(statement)}
        return next((s for s in block if id(s) in around), None)

    def apart(self, one: ast.stmt, other: ast.stmt) -> bool:
        """Whether two statements are in different arms of a condition, so that never both run."""
        for node in self.around(one):
            if isinstance(node, ast.If) and self.contains(node, other):
                arms = [
                    next((i for i, arm in enumerate((node.body, node.orelse)) if self.within(s, arm)), None)
                    for s in (one, other)
                ]
                return None not in arms and arms[0] != arms[1]
        return False

    def dominated(self, statement: ast.stmt, by: Iterable[ast.stmt]) -> bool:
        """Whether one of some statements has run whenever a statement runs."""
        ways = {id(s) for s in by}
        here: ast.AST = statement
        while here is not None and not isinstance(here, Function | ast.ClassDef):
            if isinstance(here, ast.stmt):
                block = self.block(here)
                before = block[: next(i for i, s in enumerate(block) if s is here)]
                if id(here) in ways or any(_always(s, ways) for s in before):
                    return True
            here = self._parents[here]
        return False

    # -- text and names ----------------------------------------------------------------------------------------------

    def text(self, node: ast.expr | ast.stmt) -> str:
        """The source of an expression, on one line, without the parentheses around it."""
        if node.lineno != node.end_lineno:
            return ast.unparse(node)
        return self.line(node).encode()[node.col_offset : node.end_col_offset].decode()

    def line(self, node: ast.expr | ast.stmt) -> str:
        """The line in which a node begins."""
        return self.line_at(node.lineno)

    def line_at(self, row: int) -> str:
        """The line of a row."""
        return self._lines[row - 1]

    def alone(self, statement: ast.stmt) -> bool:
        """Whether a simple statement has its line for itself, in an indented block."""
        line = self._lines[statement.lineno - 1].encode()
        last = self._lines[(statement.end_lineno or statement.lineno) - 1].encode()
        after = last[statement.end_col_offset or 0 :].strip()
        return not line[: statement.col_offset].strip() and (not after or after.startswith(b"#"))

    def walk(self, scope: ast.AST) -> Sequence[ast.AST]:
        """A part of the tree and all that it contains, outer nodes first. For functions and files: it is remembered."""
        if scope not in self._nodes:
            nodes = [scope]
            for node in nodes:
                nodes += _children(node)
            self._nodes[scope] = nodes
        return self._nodes[scope]

    def names(self, scope: ast.AST) -> Iterator[ast.Name]:
        """All names in a part of the tree."""
        return (node for node in self.walk(scope) if isinstance(node, ast.Name))

    def taken(self, scope: ast.AST) -> set[str]:
        """Names and parameters that a scope mentions."""
        found = {node.id for node in self.names(scope)}
        return found | {node.arg for node in self.walk(scope) if isinstance(node, ast.arg)}

    def reads(self, scope: ast.AST, key: str) -> list[ast.expr]:
        """Places where a name, or a dotted name such as ``self.criterion``, is read."""
        if scope not in self._reads:
            found: dict[str | None, list[ast.expr]] = {}
            for node in self.walk(scope):
                if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                    found.setdefault(spelled(node), []).append(node)
            self._reads[scope] = found
        return list(self._reads[scope].get(key, ()))

    def assignments(self, scope: ast.AST, key: str | None) -> list[ast.stmt]:
        """Statements that bind a name in a function, nested functions left out."""
        if scope not in self._bindings:
            found: dict[str | None, list[ast.stmt]] = {}
            for node in self.walk(scope):
                if isinstance(node, ast.stmt):
                    for name in {spelled(target) for target in _bound(node)}:
                        found.setdefault(name, []).append(node)
            self._bindings[scope] = found
        return sorted(self._bindings[scope].get(key, ()), key=lambda n: n.lineno)

    def has(self, code: str) -> bool:
        """Whether the top level of the file has this very statement."""
        (wanted,) = ast.parse(code).body
        alike = (n for n in self.root.body if type(n) is type(wanted) and _name(n) == _name(wanted))
        return any(ast.dump(node) == ast.dump(wanted) for node in alike)

    def is_global(self, name: str) -> bool:
        """Whether a name is bound at the top level of the file."""
        for node in self.root.body:
            match node:
                case ast.Import(names=names) | ast.ImportFrom(names=names):
                    if any((alias.asname or alias.name.partition(".")[0]) == name for alias in names):
                        return True
                case ast.FunctionDef(name=bound) | ast.ClassDef(name=bound):
                    if bound == name:
                        return True
                case ast.Assign(targets=targets):
                    if any(spelled(t) == name for target in targets for t in _targets(target)):
                        return True
                case _:
                    pass
        return False


def _name(node: ast.stmt) -> str | None:
    return node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else None


def _always(statement: ast.stmt, ways: set[int]) -> bool:
    """Whether running a statement runs one of some statements."""
    if id(statement) in ways:
        return True
    match statement:
        case ast.With(body=body) | ast.AsyncWith(body=body) | ast.Try(body=body):
            return any(_always(s, ways) for s in body)
        case ast.If(body=body, orelse=orelse):
            return all(any(_always(s, ways) for s in arm) for arm in (body, orelse))
        case _:
            return False


def _span(node: ast.expr | ast.stmt) -> tuple[int, int, int, int]:
    return (node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What a node is directly made of."""
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            for part in value:
                if isinstance(part, ast.AST):
                    yield part
        elif isinstance(value, ast.AST):
            yield value


def _bound(node: ast.stmt) -> Iterator[ast.expr]:
    """What a statement binds."""
    match node:
        case ast.Assign(targets=targets):
            for target in targets:
                yield from _targets(target)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield target
        case ast.For(target=target) | ast.AsyncFor(target=target):
            yield from _targets(target)
        case _:
            pass


def _targets(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _targets(part)
        case ast.Starred(value=inner):
            yield from _targets(inner)
        case _:
            yield node


def spelled(node: ast.AST | None) -> str | None:
    """A name or dotted name as it is written; None for any other expression."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=base, attr=attr):
            inner = spelled(base)
            return None if inner is None else f"{inner}.{attr}"
        case _:
            return None


def is_docstring(node: ast.stmt) -> bool:
    """Whether a statement is a bare constant, as a docstring is."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def spot_of(tree: Tree, node: ast.expr | ast.stmt) -> Spot:
    """Where a node stands."""
    return Spot(
        tree.path, node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    )
