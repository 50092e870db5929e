"""Taking a division out: the statement, the operator, the precomputed factor, the condition that guarded it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.codemod.held import unwrapped
from gafixer.codemod.loss import spot_of
from gafixer.codemod.plan import DeclinedError, Operand, Remove, Replace, Unwrap
from gafixer.codemod.tree import Tree, spelled

if TYPE_CHECKING:
    from gafixer.analysis.site import Division
    from gafixer.codemod.plan import Part

__all__ = ["dropped"]


def dropped(tree: Tree, division: Division) -> frozenset[Part]:
    """The parts that take one division (or a product with a precomputed reciprocal) out.

    Raises:
        DeclinedError: it is in another file, or of a form that can't be taken apart.
    """
    if division.spot is None or not tree.at(division.spot):
        raise DeclinedError("the division is in another file")
    if division.after_backward:
        raise DeclinedError("the gradients are divided by the code itself")
    statement = tree.statement(division.spot)
    assert statement is not None
    held = unwrapped(tree, statement)
    if held is not None:
        return frozenset({held})
    parts = _taken_out(tree, division, statement)
    return frozenset({*parts, *_factor(tree, division, statement)})


def _taken_out(tree: Tree, division: Division, statement: ast.stmt) -> frozenset[Part]:
    node = next(iter(tree.at(division.spot)), None) if division.spot is not None else None
    match node:
        case ast.AugAssign(op=ast.Div() | ast.Mult()):
            return _removed(tree, statement)
        case ast.BinOp(left=left, op=ast.Div()):
            return _operand(tree, node, left, Operand.LEFT, statement)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            if _is_factor(tree, right, division):
                return _operand(tree, node, left, Operand.LEFT, statement)
            if _is_factor(tree, left, division):
                return _operand(tree, node, right, Operand.RIGHT, statement)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch")), args=[kept, _]):
            return _operand(tree, node, kept, Operand.ARGUMENT, statement)
        case ast.Call(func=ast.Attribute(value=kept, attr=attr), args=[_]) if attr.rstrip("_") in {
            "div",
            "mul",
            "divide",
            "true_divide",
        }:
            if isinstance(statement, ast.Expr) and statement.value is node:
                return _removed(tree, statement)
            return _operand(tree, node, kept, Operand.RECEIVER, statement)
        case ast.Expr(value=ast.Call()):
            return _removed(tree, statement)
        case _:
            pass
    raise DeclinedError("the division has a form that can't be taken apart")


def _is_factor(tree: Tree, node: ast.expr, division: Division) -> bool:
    """Whether an operand is the reciprocal, and not the loss."""
    if division.via is None:
        return False
    origin = tree.expression(division.via)
    if origin is None:
        return False
    if tree.contains(node, origin):
        return True
    key = spelled(node)
    return key is not None and any(tree.contains(s, origin) for s in tree.assignments(tree.root, key))


def _operand(tree: Tree, node: ast.expr, kept: ast.expr, keep: Operand, statement: ast.stmt) -> frozenset[Part]:
    name = spelled(kept)
    match statement:
        case ast.Assign(targets=[target], value=value) if (
            value is node and name is not None and spelled(target) == name
        ):
            return _removed(tree, statement)
        case _:
            pass
    # `loss / steps if steps > 1 else loss`
    choice = tree.parent(node)
    if isinstance(choice, ast.IfExp) and choice.body is node and tree.text(choice.orelse) == tree.text(kept):
        match statement:
            case ast.Assign(targets=[target], value=value) if value is choice and spelled(target) == tree.text(kept):
                return _removed(tree, statement)
            case _:
                return frozenset({Replace(spot_of(tree, choice), tree.text(kept))})
    return frozenset({Unwrap(spot_of(tree, node), keep)})


def _removed(tree: Tree, statement: ast.stmt) -> frozenset[Part]:
    """Take a statement out, and the condition or loop around it that then does nothing."""
    if not tree.alone(statement):
        raise DeclinedError(f"the statement in line {statement.lineno} shares its line with another")
    parent = tree.parent(statement)
    match parent:
        case ast.If(body=[only], orelse=[]) if only is statement and not _does_something(parent.test):
            chain = tree.parent(parent)
            if isinstance(chain, ast.If) and parent in chain.orelse:
                raise DeclinedError("the division is one arm of a longer condition")
            return _removed(tree, parent)
        case ast.For(body=[only], orelse=[]) if only is statement and not _does_something(parent.iter):
            return _removed(tree, parent)
        case _:
            return frozenset({Remove(spot_of(tree, statement))})


def _does_something(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Call | ast.NamedExpr | ast.Await) for part in ast.walk(node))


def _factor(tree: Tree, division: Division, statement: ast.stmt) -> frozenset[Part]:
    """The assignment of a precomputed reciprocal, where nothing else reads it."""
    if division.via is None or division.via == division.spot:
        return frozenset()
    made = tree.statement(division.via)
    match made:
        case ast.Assign(targets=[ast.Name(id=name)]) if made is not statement and tree.alone(made):
            scope = tree.function_of(made)
            if len(tree.reads(scope, name)) == 1 and len(tree.assignments(scope, name)) == 1:
                return frozenset({Remove(spot_of(tree, made))})
        case _:
            pass
    return frozenset()
