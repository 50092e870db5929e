"""What a rewrite keeps as it is: functions and classes that it touches nowhere are not parsed again.

In the text that libcst reads a short function stands for each of them, between the same comments and blank lines.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from gafixer.codemod.tree import Tree

__all__ = ["Shortened", "shortened"]

_Definition: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef"

_NAME = "_gafixer_kept_"
_STANDS = re.compile(rf"def {_NAME}(\d+)\(\):\s*pass")


@dataclass(frozen=True, slots=True)
class Shortened:
    """A file's text without what is kept. `rows` are the file's rows of this text's lines, from row 0 on."""

    text: str
    rows: Sequence[int]
    kept: Sequence[str]

    def restored(self, code: str) -> str:
        """Code made of this text, with what was kept in its place again."""
        return _STANDS.sub(lambda match: self.kept[int(match[1])], code) if self.kept else code


def shortened(tree: Tree, touched: Collection[int]) -> Shortened:
    """The text of a file in which only `touched` rows change."""
    lines = tree.source.split("\n")
    made: list[str] = []
    rows = [0]
    kept: list[str] = []
    row = 1
    for node in _untouched(tree.root.body, touched) if _NAME not in tree.source else ():
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        head = lines[first - 1]
        last = _end(lines, node.end_lineno or node.lineno, node.col_offset)
        if first < row or not head[node.col_offset :].startswith(("def ", "class ", "async ", "@")):
            continue
        stand = f"{head[: node.col_offset]}def {_NAME}{len(kept)}():{_body(lines, node)}"
        kept.append("\n".join([head[node.col_offset :], *lines[first:last]]))
        made += [*lines[row - 1 : first - 1], *stand.split("\n")]
        rows += [*range(row, first), *[first] * (stand.count("\n") + 1)]
        row = last + 1
    return Shortened("\n".join([*made, *lines[row - 1 :]]), [*rows, *range(row, len(lines) + 1)], kept)


def _untouched(block: Sequence[ast.stmt], touched: Collection[int]) -> Iterator[_Definition]:
    """Definitions of the top level, and of classes there that are touched themselves."""
    for node in block:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        if not any(first <= row <= (node.end_lineno or first) for row in touched):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _untouched(node.body, touched)


def _body(lines: Sequence[str], node: _Definition) -> str:
    """A body with the indentation of the definition's own, by which that of a file is told."""
    first = node.body[0]
    before = lines[first.lineno - 1].encode()[: first.col_offset].decode()
    return " pass" if before.strip() else f"\n{before}pass"


def _end(lines: Sequence[str], end: int, column: int) -> int:
    """The last row of a definition: comments below it belong to it as far as they are indented deeper."""
    last = end
    for row in range(end + 1, len(lines) + 1):
        line = lines[row - 1]
        text = line.lstrip()
        if text and not text.startswith("#"):
            break
        if text and len(line) - len(text) > column:
            last = row
    return last
