"""Source text of expressions as it stands, with arguments added to calls inside: for code that moves."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gafixer.codemod.tree import Tree

__all__ = ["LONG", "indent", "widest", "with_arguments"]


def indent(tree: Tree) -> str:
    """What the file indents a block by."""
    for node in tree.walk(tree.root):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(node, ast.stmt) and body[0].lineno > node.lineno:
            return " " * max(int(body[0].col_offset) - node.col_offset, 1)
    return "    "


#: Lines of this length are fine in any file; longer than the longest is fine in none.
_SHORT, LONG = 88, 120


def widest(tree: Tree) -> int:
    """How long a line may be in a file: as its own longest one, within reason."""
    return min(LONG, max(_SHORT, *map(len, tree.source.split("\n"))))


def with_arguments(tree: Tree, node: ast.expr, added: Mapping[ast.Call, str]) -> str:
    """The code of an expression, lines kept, with one more argument for some of the calls in it.

    Lines are as far to the left as if the expression's statement stood at the margin.
    """
    lines = tree.source.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)

    def offset(row: int, column: int) -> int:
        line = lines[row - 1]
        return starts[row - 1] + (column if line.isascii() else len(line.encode()[:column].decode()))

    begin = offset(node.lineno, node.col_offset)
    text = tree.source[begin : offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)]
    places = sorted(
        ((offset(c.end_lineno or 0, c.end_col_offset or 0) - 1 - begin, a) for c, a in added.items()), reverse=True
    )
    for end, argument in places:
        before = text[:end].rstrip()
        if before.endswith(","):
            last = before[before.rfind("\n") + 1 :]
            inside = last[: len(last) - len(last.lstrip())]
            text = f"{before}\n{inside}{argument},{text[len(before) :]}"
        else:
            text = f"{before}{'' if before.endswith('(') else ', '}{argument}{text[len(before) :]}"
    statement = tree.statement_of(node)
    margin = " " * (statement.col_offset if statement is not None else 0)
    return text.replace(f"\n{margin}", "\n")
