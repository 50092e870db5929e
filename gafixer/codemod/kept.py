"""What a rewrite keeps as it is: statements, functions and classes that it touches nowhere are not parsed again.

In the text that libcst reads a name stands for each run of them, for definitions of the top level a short function,
between the same comments and blank lines.
"""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from gafixer.codemod.tree import Tree

__all__ = ["Shortened", "shortened"]

_NAME = "_gafixer_kept_"
_STANDS = re.compile(rf"(?:def )?{_NAME}(\d+)(?:\(\):\s*pass)?")
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


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
    for run in _untouched(tree, touched) if _NAME not in tree.source else ():
        first, column = _first(run[0]), run[0].col_offset
        last = _end(lines, run[-1])
        head = lines[first - 1]
        stand = f"{head[:column]}{_stand(lines, run[0], f'{_NAME}{len(kept)}')}"
        kept.append("\n".join([head[column:], *lines[first:last]]))
        made += [*lines[row - 1 : first - 1], *stand.split("\n")]
        rows += [*range(row, first), *[run[0].lineno] * (stand.count("\n") + 1)]
        row = last + 1
    return Shortened("\n".join([*made, *lines[row - 1 :]]), [*rows, *range(row, len(lines) + 1)], kept)


def _untouched(tree: Tree, touched: Collection[int]) -> Iterator[Sequence[ast.stmt]]:
    """Runs of untouched definitions of the top level, and of statements within what is not kept there, in order."""

    def stays(node: ast.stmt) -> bool:
        return not _is_touched(node, touched) and tree.alone(node) and not _is_elif(tree, node)

    def runs(block: Sequence[ast.stmt], wanted: Callable[[ast.stmt], bool]) -> Iterator[Sequence[ast.stmt]]:
        for keeps, nodes in itertools.groupby(block, wanted):
            if keeps:
                yield list(nodes)
                continue
            for inner in (inner for node in nodes for inner in _blocks(node)):
                yield from runs(inner, stays)

    return runs(tree.root.body, lambda node: isinstance(node, _Definition) and stays(node))


def _blocks(node: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    """The blocks that a statement consists of, in their order."""
    yield getattr(node, "body", ())
    for arm in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield arm.body
    yield getattr(node, "orelse", ())
    yield getattr(node, "finalbody", ())


def _is_touched(node: ast.stmt, touched: Collection[int]) -> bool:
    return any(_first(node) <= row <= (node.end_lineno or node.lineno) for row in touched)


def _is_elif(tree: Tree, node: ast.stmt) -> bool:
    """Whether a condition is an arm of the one before, without which it can't stand."""
    return isinstance(node, ast.If) and tree.line(node).lstrip().startswith("elif")


def _first(node: ast.stmt) -> int:
    """The row of a statement's first line, its decorators counted in."""
    decorators = node.decorator_list if isinstance(node, _Definition) else []
    return min([node.lineno, *(d.lineno for d in decorators)])


def _stand(lines: Sequence[str], node: ast.stmt, name: str) -> str:
    """What stands for a run that begins with a statement.

    For a definition of the top level that is a function, with the indentation of its body, by which that of a file is
    told.
    """
    if node.col_offset or not isinstance(node, _Definition):
        return name
    before = _indentation(lines, node.body)
    return f"def {name}():" + (" pass" if before is None else f"\n{before}pass")


def _end(lines: Sequence[str], node: ast.stmt) -> int:
    """The last row of a statement. Comments and blanks below a block are its own, up to the last indented as it is."""
    last = end = node.end_lineno or node.lineno
    inside = next((block for block in reversed([*_blocks(node)]) if block), None)
    if inside is None or (indentation := _indentation(lines, inside)) is None:
        return last
    for row in range(end + 1, len(lines) + 1):
        line = lines[row - 1]
        if line.strip() and not line.lstrip().startswith("#"):
            break
        if line.startswith(indentation):
            last = row
    return last


def _indentation(lines: Sequence[str], block: Sequence[ast.stmt]) -> str | None:
    """What stands before the statements of a block, if they have lines of their own."""
    first = block[0]
    before = lines[first.lineno - 1].encode()[: first.col_offset].decode()
    return None if before.strip() else before
