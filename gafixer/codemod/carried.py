"""A loss that another method of the same object computes: the object carries its count to where backward runs.

The count is 1 until a loss says otherwise, so that a subclass which nobody changed goes on as before: each of its
microbatches weighs as much as any other.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.codemod.plan import DeclinedError, Insert, Where
from gafixer.codemod.tree import spelled, spot_of

if TYPE_CHECKING:
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Function, Tree

__all__ = ["COUNT", "bases", "carried", "is_method"]

#: What the object calls the items of its last microbatch.
COUNT = "self._items"


def carried(tree: Tree, other: Tree, node: ast.expr, home: Function, count: str) -> frozenset[Part]:
    """Parts that let an object remember the count of a loss; `node` computes it, in a method of the tree `other`.

    Raises:
        DeclinedError: the method is no other one of the object that runs backward, or computes several losses.
    """
    method, owner, runner = other.function_of(node), other.class_of(node), tree.class_of(home)
    statement = other.statement_of(node)
    if owner is None or runner is None or not (is_method(owner, method) and is_method(runner, home)):
        raise DeclinedError("the loss is computed behind several calls")
    if not ((other is tree and owner is runner) or runner.name in bases(owner)):
        raise DeclinedError("the loss is computed by another object than runs backward")
    if other is not tree and tree.beside(other.path) is None:
        raise DeclinedError(f"the loss is computed in {other.path}, which is not among the files that are scanned")
    if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Return) or not other.alone(statement):
        raise DeclinedError("the loss is not made by a statement of its own")
    init = next((n for n in runner.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    if init is None or init.body[-1].lineno <= init.lineno or isinstance(init.body[-1], ast.Return):
        raise DeclinedError("the class has no __init__ to start the count in")
    if any(COUNT in {spelled(n) for n in ast.walk(cls)} for cls in (owner, runner)):
        raise DeclinedError("the object has an `_items` of its own")
    around = [n for n in other.around(statement) if isinstance(n, ast.For | ast.While)]
    if any(other.contains(method, loop) for loop in around if method is not None):
        raise DeclinedError("the loss is added up in a loop")
    return frozenset(
        {
            Insert(spot_of(other, statement), Where.BEFORE, f"{COUNT} = {count}"),
            Insert(spot_of(tree, init.body[-1]), Where.AFTER, f"{COUNT} = 1", 1),
        }
    )


def is_method(cls: ast.ClassDef, function: object) -> bool:
    """Whether a function is one of a class's own, which calls its object `self`."""
    if not isinstance(function, ast.FunctionDef) or not any(function is own for own in cls.body):
        return False
    first = next(iter((*function.args.posonlyargs, *function.args.args)), None)
    return first is not None and first.arg == "self" and not function.decorator_list


def bases(cls: ast.ClassDef) -> set[str]:
    """The names of a class's bases, without their modules."""
    return {(spelled(base) or "").rpartition(".")[2] for base in cls.bases}
