"""Losses that sum where there is a count and are divided by it, and stay means where there is none."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.codemod.averaged import kept
from gafixer.codemod.plan import DeclinedError, Insert, Keyword, Replace, Where
from gafixer.codemod.returned import Leaf, Made, settings_of
from gafixer.codemod.scope import Handed, Scope, free
from gafixer.codemod.text import indent, with_arguments
from gafixer.codemod.tree import spelled, spot_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.codemod.tree import Tree

__all__ = ["by_items", "statement_for", "sums"]


def sums(scope: Scope, made: Handed, criteria: Sequence[Leaf], whole: Sequence[ast.expr]) -> None:
    """Let the losses sum where there is a count, and divide by it."""
    tree = scope.tree
    names = {spelled(node) for node in whole}
    loss = next(iter(names)) if len(names) == 1 else None
    bound: dict[str, list[ast.stmt]] = {}
    optional: set[str] = set()
    used: list[ast.stmt] = []
    for leaf in criteria:
        statement = statement_for(tree, leaf.node)
        settings = settings_of(tree, scope.function, leaf.call)
        assert settings is not None
        inside = tree.function_of(settings) is scope.function
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_choice(value, leaf.node):
                bound.setdefault(name, []).append(statement)
                optional |= {name} if value is not leaf.node else set()
                if inside:
                    made.parts.add(Keyword(spot_of(tree, settings), "reduction", "reduction"))
            case _:
                _always(tree, leaf.node, statement)
                name = free(scope, "loss", "item_loss")
                code = with_arguments(
                    tree, leaf.node, {settings: "reduction=reduction"} if settings is leaf.call else {}
                )
                if inside and settings is not leaf.call:
                    made.parts.add(Keyword(spot_of(tree, settings), "reduction", "reduction"))
                where = spot_of(tree, statement)
                made.parts |= {
                    Insert(where, Where.BEFORE, f"{name} = {code}", 2),
                    Replace(spot_of(tree, leaf.node), name),
                }
                last = any(node is leaf.node for node in whole)
                made.parts.add(Insert(where, Where.BEFORE, _division(scope, name, last=last), 3))
                made.owed = made.owed or bool(scope.factor and not last)
        if inside:
            used.append(statement_for(tree, settings))
        else:
            _twin(scope, made, leaf, settings)
        used.append(statement)
    anchor = _first(tree, used)
    if any(isinstance(p, Keyword) and p.code == "reduction" for p in made.parts) or any(
        isinstance(p, Insert) and "reduction=reduction" in p.code for p in made.parts
    ):
        if "reduction" in tree.taken(scope.function):
            raise DeclinedError("the function has a `reduction` of its own")
        made.parts.add(
            Insert(spot_of(tree, anchor), Where.BEFORE, f'reduction = "mean" if {scope.count} is None else "sum"', 1)
        )
    if scope.lookup:
        made.parts.add(Insert(spot_of(tree, anchor), Where.BEFORE, f"{scope.count} = {scope.lookup}", 0))
    for name, statements in bound.items():
        end = statements[0] if len(statements) == 1 else _joined(tree, name, statements)
        made.parts.add(
            Insert(
                spot_of(tree, end), Where.AFTER, _division(scope, name, last=name == loss, optional=name in optional), 1
            )
        )
        made.owed = made.owed or bool(scope.factor and name != loss)


def _is_choice(value: ast.expr, node: ast.expr) -> bool:
    """Whether a value is the loss, or the loss or None."""
    match value:
        case ast.IfExp(body=body, orelse=ast.Constant(value=None)):
            return body is node
        case ast.IfExp(body=ast.Constant(value=None), orelse=orelse):
            return orelse is node
        case _:
            return value is node


def _always(tree: Tree, node: ast.expr, statement: ast.stmt) -> None:
    """What is computed before its statement must be computed in any case.

    Raises:
        DeclinedError: the statement computes it in some cases only.
    """
    for outer in tree.around(node):
        if outer is statement:
            return
        if isinstance(outer, ast.IfExp | ast.BoolOp | ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.DictComp):
            raise DeclinedError("the loss is made in a part of an expression that is not always evaluated")


def _division(scope: Scope, name: str, *, last: bool, optional: bool = False) -> str:
    """Where there is a count, divide by it; what is the whole loss also gets what it owes several ranks."""
    margin = indent(scope.tree)
    given = f"{name} is not None and {scope.count}" if optional else scope.count
    lines = [f"if {given} is not None:", f"{margin}{name} = {name} / {scope.count}"]
    if last:
        lines += [f"{margin}{line.format(loss=name, indent=margin)}" for line in scope.factor]
    return "\n".join(lines) + "\n"


def statement_for(tree: Tree, node: ast.expr) -> ast.stmt:
    statement = tree.statement_of(node)
    if statement is None or not isinstance(statement, ast.Assign | ast.AugAssign | ast.Return | ast.Expr):
        raise DeclinedError("the loss is made in the head of a block")
    if not tree.alone(statement):
        raise DeclinedError(f"the statement in line {statement.lineno} shares its line with another")
    return statement


def _chain(tree: Tree, statement: ast.stmt) -> list[ast.stmt]:
    """A statement and those around it, outermost first."""
    return [n for n in tree.around(statement) if isinstance(n, ast.stmt)][::-1]


def _common(tree: Tree, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """For each statement, the one that it is in in the innermost block that has them all."""
    for candidate in reversed(_chain(tree, statements[0])):
        block = tree.block(candidate)
        inside = [tree.within(s, block) for s in statements]
        if all(s is not None for s in inside):
            return [s for s in inside if s is not None]
    raise DeclinedError("the losses have no block in common")


def _first(tree: Tree, statements: Sequence[ast.stmt]) -> ast.stmt:
    return min(_common(tree, statements), key=lambda s: s.lineno)


def _joined(tree: Tree, name: str, statements: Sequence[ast.stmt]) -> ast.stmt:
    """The statement after which a name that several branches bind may be divided."""
    last = max(_common(tree, statements), key=lambda s: s.lineno)
    own = {id(s) for s in statements}
    for node in tree.names(last):
        inside = tree.statement_of(node)
        if node.id == name and isinstance(node.ctx, ast.Load) and id(inside) not in own and not _is_test(tree, node):
            raise DeclinedError("the losses of several branches are used before they meet")
    if len({id(s) for s in _common(tree, statements)}) > 1:
        raise DeclinedError("a loss is made twice")
    return last


def _is_test(tree: Tree, node: ast.Name) -> bool:
    return isinstance(tree.parent(node), ast.Compare)


def _twin(scope: Scope, made: Handed, leaf: Leaf, settings: ast.Call) -> None:
    """A criterion that `__init__` made gets a second one beside it, which sums."""
    tree = scope.tree
    key = spelled(leaf.call.func)
    there = tree.statement_of(settings)
    if key is None or not isinstance(there, ast.Assign) or there.value is not settings or not tree.alone(there):
        raise DeclinedError("the criterion is made where it can't be told to sum")
    prefix, _, last = key.rpartition(".")
    twin = f"{prefix}.sum_{last}"
    name = free(scope, last, f"{last}_now")
    code = with_arguments(tree, settings, {settings: 'reduction="sum"'})
    made.parts.add(Insert(spot_of(tree, there), Where.AFTER, f"{twin} = {code}"))
    statement = statement_for(tree, leaf.node)
    choice = f"{name} = {key} if {scope.count} is None else {twin}"
    made.parts |= {
        Insert(spot_of(tree, statement), Where.BEFORE, choice, 1),
        Replace(spot_of(tree, leaf.call.func), name),
    }


# -- by hand ---------------------------------------------------------------------------------------------------------


def by_items(scope: Scope, made: Handed, terms: Sequence[Leaf]) -> None:
    """Sums divided by the window's count, or by the microbatch's own where there is none."""
    tree = scope.tree
    name = free(scope, "items", "num_scored")
    counts: dict[str, list[ast.stmt]] = {}
    for leaf in terms:
        statement = statement_for(tree, leaf.node)
        match leaf.made, leaf.node:
            case Made.QUOTIENT, ast.BinOp(right=right):
                counts.setdefault(tree.text(right), []).append(statement)
                made.parts.add(Replace(spot_of(tree, right), name))
            case _:
                mask = kept(leaf.node)
                assert mask is not None
                own = (
                    tree.text(mask) if isinstance(mask, ast.Name | ast.Attribute | ast.Call) else f"({tree.text(mask)})"
                )
                counts.setdefault(f"{own}.sum()", []).append(statement)
                assert isinstance(leaf.node, ast.Call)
                values = leaf.node.args[0] if leaf.node.args else leaf.node.func.value  # type: ignore[attr-defined] # `x.mean()`
                code = f"{tree.text(values)}.sum() / {name}"
                bare = isinstance(tree.parent(leaf.node), ast.Assign | ast.Return | ast.keyword)
                made.parts.add(Replace(spot_of(tree, leaf.node), code if bare else f"({code})"))
    if len(counts) > 1:
        raise DeclinedError("its terms have denominators of their own")
    ((own, statements),) = counts.items()
    anchor = spot_of(tree, _first(tree, statements))
    if scope.lookup and not any(isinstance(p, Insert) and scope.lookup in p.code for p in made.parts):
        made.parts.add(Insert(anchor, Where.BEFORE, f"{scope.count} = {scope.lookup}", 0))
    made.parts.add(Insert(anchor, Where.BEFORE, f"{name} = {own} if {scope.count} is None else {scope.count}", 1))
    made.owed = bool(scope.factor)
