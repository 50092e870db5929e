"""What `Trainer` counts are the labels that are not -100: whether an expression is these, or marks them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.codemod.count import SAME, divisor_count
from gafixer.codemod.tree import spelled

if TYPE_CHECKING:
    from gafixer.codemod.tree import Function, Tree

__all__ = ["bound", "counts_scored", "is_shifted", "labels_of", "marks_scored"]

_IGNORED = -100
_DEEPEST = 12


def bound(tree: Tree, function: Function, name: str, before: int) -> list[ast.stmt]:
    """The assignments that may have given a name the value that it has in line `before`."""
    earlier = [s for s in tree.assignments(function, name) if s.lineno < before]
    for position in range(len(earlier) - 1, -1, -1):
        # What stands under no condition of its own hides all before it.
        if tree.parent(earlier[position]) is function:
            return earlier[position:]
    return earlier


def labels_of(tree: Tree, function: Function, node: ast.expr, names: frozenset[str], depth: int = 0) -> str | None:
    """How an expression is made of the labels: "whole", "shifted", or None if it isn't.

    `names` are the parameters that hold labels.
    """
    if depth > _DEEPEST:
        return None
    match node:
        case ast.Name(id=name):
            made = bound(tree, function, name, node.lineno)
            if not made:
                return "whole" if name in names else None
            found = {
                labels_of(tree, function, s.value, names, depth + 1)
                if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name)
                else None
                for s in made
            }
            return found.pop() if len(found) == 1 else None
        case ast.Subscript(slice=ast.Constant(value="labels")):
            return "whole"
        case ast.Attribute(attr="labels"):
            return "whole"
        case ast.Call(func=ast.Attribute(attr="pop" | "get"), args=[ast.Constant(value="labels"), *_]):
            return "whole"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=attr), args=[inner, *_]) if attr in SAME:
            return labels_of(tree, function, inner, names, depth + 1)
        case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in SAME:
            return labels_of(tree, function, inner, names, depth + 1)
        case ast.Subscript(value=inner, slice=key) if is_shifted(key):
            whole = labels_of(tree, function, inner, names, depth + 1)
            return "shifted" if whole == "whole" else None
        case _:
            return None


def is_shifted(key: ast.expr) -> bool:
    """Whether a subscript drops the first label of each row: ``[..., 1:]``, ``[:, 1:]``."""
    match key:
        case ast.Tuple(elts=[*_, ast.Slice(lower=ast.Constant(value=1), upper=None)]):
            return True
        case ast.Slice(lower=ast.Constant(value=1), upper=None):
            return True
        case _:
            return False


def marks_scored(tree: Tree, function: Function, node: ast.expr, names: frozenset[str], depth: int = 0) -> str | None:
    """How an expression is the mask of the labels that are scored: "whole", "shifted", or None if it isn't."""
    if depth > _DEEPEST:
        return None
    match node:
        case ast.Name(id=name):
            made = bound(tree, function, name, node.lineno)
            found = {
                marks_scored(tree, function, s.value, names, depth + 1)
                if isinstance(s, ast.Assign) and len(s.targets) == 1 and spelled(s.targets[0]) == name
                else None
                for s in made
            }
            return found.pop() if len(found) == 1 else None
        case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[right]) if _is_ignored(right):
            return labels_of(tree, function, left, names)
        case ast.Call(func=ast.Attribute(value=inner, attr="ne"), args=[right]) if _is_ignored(right):
            return labels_of(tree, function, inner, names)
        case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in SAME:
            return marks_scored(tree, function, inner, names, depth + 1)
        case ast.Subscript(value=inner, slice=key) if is_shifted(key):
            whole = marks_scored(tree, function, inner, names, depth + 1)
            return "shifted" if whole == "whole" else None
        case _:
            return None


def counts_scored(tree: Tree, function: Function, node: ast.expr, names: frozenset[str]) -> str | None:
    """The same of a count: the sum of such a mask, guarded against zero or not."""
    inner = divisor_count(node)
    match inner:
        case ast.Name(id=name):
            made = bound(tree, function, name, inner.lineno)
            if len(made) == 1 and isinstance(made[0], ast.Assign) and spelled(made[0].targets[0]) == name:
                return counts_scored(tree, function, made[0].value, names)
            return None
        case ast.Call(func=ast.Attribute(value=mask, attr="sum"), args=[], keywords=[]):
            return marks_scored(tree, function, mask, names)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="sum"), args=[mask], keywords=[]):
            return marks_scored(tree, function, mask, names)
        case _:
            return None


def _is_ignored(node: ast.expr) -> bool:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=100)):
            return True
        case ast.Constant(value=value):
            return value == _IGNORED
        case _:
            return False
