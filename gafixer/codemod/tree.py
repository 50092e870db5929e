"""What plans need to know of a file's syntax: who contains whom, what a name is bound to, the text of a node."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from gafixer.analysis.values import Spot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["DEEPEST", "Function", "Tree", "is_docstring", "spelled", "spot_of"]

#: Syntax deeper than this is not rewritten.
DEEPEST = 100

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module
_Block = list[ast.stmt]


class Tree:
    """The syntax tree of one file, with parents.

    `beside` gives those of files that a plan may change, too, `derived` the classes of the project that name a class
    as a base.
    """

    def __init__(
        self,
        source: str,
        path: str,
        beside: Callable[[str], Tree | None] = lambda path: None,
        derived: Callable[[str], list[ast.ClassDef]] = lambda name: [],
    ) -> None:
        self.source = source
        self.path = path
        self.beside = beside
        self.derived = derived
        self.root = ast.parse(source)
        self.depth = 0
        self._lines = source.split("\n")
        self._parents: dict[ast.AST, ast.AST] = {}
        self._at: dict[tuple[int, int, int, int], list[ast.AST]] = {}
        stack: list[tuple[ast.AST, int]] = [(self.root, 0)]
        while stack:
            node, depth = stack.pop()
            self.depth = max(self.depth, depth)
            if isinstance(node, ast.expr | ast.stmt):
                self._at.setdefault(_span(node), []).append(node)
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
                stack.append((child, depth + 1))

    # -- looking up --------------------------------------------------------------------------------------------------

    def at(self, spot: Spot) -> list[ast.AST]:
        """The nodes that span exactly a spot, outermost first; none where the spot is in another file."""
        if spot.path != self.path:
            return []
        return self._at.get((spot.row, spot.column, spot.end_row, spot.end_column), [])

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

    def text(self, node: ast.AST) -> str:
        """The source of an expression, on one line, without the parentheses around it."""
        found = ast.get_source_segment(self.source, node) or ""
        return found if "\n" not in found else ast.unparse(node)

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

    def names(self, scope: ast.AST) -> Iterator[ast.Name]:
        """All names in a part of the tree."""
        return (node for node in ast.walk(scope) if isinstance(node, ast.Name))

    def taken(self, scope: ast.AST) -> set[str]:
        """Names and parameters that a scope mentions."""
        found = {node.id for node in self.names(scope)}
        return found | {node.arg for node in ast.walk(scope) if isinstance(node, ast.arg)}

    def reads(self, scope: ast.AST, key: str) -> list[ast.expr]:
        """Places where a name, or a dotted name such as ``self.criterion``, is read."""
        return [
            node
            for node in ast.walk(scope)
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load) and spelled(node) == key
        ]

    def assignments(self, scope: ast.AST, key: str) -> list[ast.stmt]:
        """Statements that bind a name in a function, nested functions left out."""
        found = []
        for node in ast.walk(scope):
            match node:
                case ast.Assign(targets=targets):
                    bound = [t for target in targets for t in _targets(target)]
                case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                    bound = [target]
                case ast.For(target=target) | ast.AsyncFor(target=target):
                    bound = list(_targets(target))
                case _:
                    continue
            if any(spelled(t) == key for t in bound):
                assert isinstance(node, ast.stmt)
                found.append(node)
        return sorted(found, key=lambda n: n.lineno)

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
