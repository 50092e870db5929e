"""Ties places that `ast` gives to libcst's nodes, by kind and span.

Columns of ast are UTF-8 bytes, those of libcst characters.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from gafixer.codemod.plan import DeclinedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.analysis.spot import Spot
    from gafixer.codemod.tree import Tree

__all__ = ["Locator", "Statement"]

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement

_KINDS: dict[type[ast.AST], type[cst.CSTNode]] = {
    ast.Call: cst.Call,
    ast.BinOp: cst.BinaryOperation,
    ast.Name: cst.Name,
    ast.Attribute: cst.Attribute,
    ast.Subscript: cst.Subscript,
    ast.Compare: cst.Comparison,
    ast.BoolOp: cst.BooleanOperation,
    ast.IfExp: cst.IfExp,
    ast.UnaryOp: cst.UnaryOperation,
}


class Locator:
    """Finds libcst nodes by the spots of a tree. `rows` are the tree's rows of the module's, from row 0 on."""

    def __init__(self, tree: Tree, module: cst.Module, rows: Sequence[int]) -> None:
        self._tree = tree
        self._lines = tree.source.split("\n")
        wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
        self._expressions: dict[tuple[int, int, int, int], list[cst.CSTNode]] = {}
        self._statements: dict[tuple[int, int], Statement] = {}
        for node, where in wrapper.resolve(PositionProvider).items():
            start, end = where.start, where.end
            match node:
                case cst.SimpleStatementLine():
                    self._statements[rows[start.line], start.column] = node
                case cst.BaseCompoundStatement():
                    self._statements.setdefault((rows[start.line], start.column), node)
                    if isinstance(node, cst.FunctionDef | cst.ClassDef):
                        self._statements[rows[start.line] + len(node.decorators), start.column] = node
                case cst.BaseExpression():
                    key = (rows[start.line], start.column, rows[end.line], end.column)
                    self._expressions.setdefault(key, []).append(node)
                case _:
                    pass

    def expression(self, spot: Spot) -> cst.BaseExpression:
        """The expression at a spot.

        Raises:
            DeclinedError: there is none of its kind.
        """
        wanted = self._tree.expression(spot)
        kind: type[cst.CSTNode] | None = next((k for a, k in _KINDS.items() if isinstance(wanted, a)), None)
        key = (spot.row, self._column(spot.row, spot.column), spot.end_row, self._column(spot.end_row, spot.end_column))
        # ast counts the parentheses of a tuple in, libcst doesn't.
        inside = (
            self._expressions.get((key[0], key[1] + 1, key[2], key[3] - 1), ()) if isinstance(wanted, ast.Tuple) else ()
        )
        bare = [node for node in inside if isinstance(node, cst.Tuple) and node.lpar]
        for node in (*self._expressions.get(key, ()), *bare):
            if isinstance(node, cst.BaseExpression) and (kind is None or isinstance(node, kind)):
                return node
        raise DeclinedError(f"line {spot.row} could not be located")

    def statement(self, spot: Spot) -> Statement:
        """The statement that begins at a spot.

        Raises:
            DeclinedError: there is none, or it shares its line with another.
        """
        found = self._statements.get((spot.row, self._column(spot.row, spot.column)))
        if found is None or (isinstance(found, cst.SimpleStatementLine) and len(found.body) != 1):
            raise DeclinedError(f"the statement in line {spot.row} shares its line with another")
        return found

    def _column(self, row: int, column: int) -> int:
        line = self._lines[row - 1]
        return column if line.isascii() else len(line.encode()[:column].decode())
