"""What the user reports keeps its meaning: where the loss variable became a sum, its readers get the mean it was."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.analysis.site import Divisor
from gafixer.codemod.loss import Summed, spot_of
from gafixer.codemod.plan import DeclinedError, Replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.analysis.site import Division
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree
    from gafixer.codemod.window import Layout

__all__ = ["divisor", "reads"]


def reads(tree: Tree, place: Layout, loss: Summed, divisions: Sequence[Division], own: str) -> set[Part]:
    """Parts that let every reader of the loss, backward aside, read what it read before."""
    made = tree.statement_of(loss.node)
    going = {n.id for n in ast.walk(place.call) if isinstance(n, ast.Name)}
    summed = _closure(tree, place, [made] if made is not None and not loss.boxed else [], going)
    divided = {d.spot: _closure(tree, place, _statements(tree, d), going) for d in divisions}
    carriers = summed.union(*divided.values())
    if not carriers or made is None:
        return set()
    parts: set[Part] = set()
    for node in tree.walk(place.home):
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or node.id not in carriers:
            continue
        statement = tree.statement_of(node)
        if statement is None or statement.lineno <= made.lineno or _leads_to_backward(tree, statement, carriers):
            continue
        if not _reaches(tree, place, made, node, statement, carriers):
            continue
        after = [d for d in divisions if node.id in divided[d.spot] and _before(d, statement)]
        parts |= _read(tree, node, after, loss.divisor.format(own), boxed=loss.boxed)
    return parts


def _reaches(
    tree: Tree, place: Layout, made: ast.stmt, node: ast.Name, statement: ast.stmt, carriers: set[str]
) -> bool:
    """Whether what is read is this loss, and not one that was computed since."""
    if tree.function_of(node) is not place.home:
        return False
    from_it = carriers | {n.id for n in ast.walk(made) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for other in tree.assignments(place.home, node.id):
        between = made.lineno < other.lineno < statement.lineno
        if between and not _mentions(other, from_it) and not tree.apart(made, other):
            return False
    return True


def _mentions(statement: ast.stmt, names: set[str]) -> bool:
    value = getattr(statement, "value", None)
    return isinstance(statement, ast.AugAssign) or (
        value is not None and any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(value))
    )


def _statements(tree: Tree, division: Division) -> list[ast.stmt]:
    found = tree.statement(division.spot) if division.spot is not None else None
    return [] if found is None else [found]


def _closure(tree: Tree, place: Layout, starts: Sequence[ast.stmt], going: set[str]) -> set[str]:
    """The names that statements bind, and those that get it from them on the way to backward."""
    found = {name for s in starts for name in _bound(s, going)}
    for node in sorted((n for n in tree.walk(place.home) if isinstance(n, ast.Assign)), key=lambda n: n.lineno):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in going and starts:
                later = node.lineno > min(s.lineno for s in starts)
                if later and any(isinstance(n, ast.Name) and n.id in found for n in ast.walk(value)):
                    found.add(name)
            case _:
                pass
    return found


def _bound(statement: ast.stmt, going: set[str]) -> set[str]:
    """The name that a statement gives a loss; of several, that which goes backward."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AugAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Assign(targets=[ast.Tuple(elts=parts)]):
            return {part.id for part in parts if isinstance(part, ast.Name)} & going
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="div_" | "mul_"))):
            return {name}
        case _:
            return set()


def _leads_to_backward(tree: Tree, statement: ast.stmt, carriers: set[str]) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AugAssign(target=ast.Name(id=name)):
            return name in carriers
        case ast.With(items=items):
            return any("scale_loss" in ast.unparse(item.context_expr) for item in items)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=attr), args=args)):
            if attr in {"backward", "manual_backward"}:
                return True
            return attr in {"div_", "mul_"} and len(args) == 1
        case _:
            return False


def _before(division: Division, statement: ast.stmt) -> bool:
    """Whether a division changed the variable before a statement reads it."""
    return division.spot is not None and division.divisor is Divisor.STEPS and division.spot.row < statement.lineno


def _read(tree: Tree, node: ast.Name, divisions: Sequence[Division], own: str, *, boxed: bool) -> set[Part]:
    """The mean in the place of one read; a factor that undid the division goes with it."""
    names = [d for d in divisions if not _is_backward_only(tree, d)]
    texts = [_by(tree, d) for d in names]
    if boxed and not texts:
        return set()
    mean = node.id if boxed else f"{node.id} / {own}"
    undone = _undone(tree, node, texts)
    if undone is not None and len(texts) == 1:
        code = ast.unparse(undone.left).replace(node.id, f"({mean})", 1) if not boxed else tree.text(undone.left)
        return {Replace(spot_of(tree, undone), code)}
    if boxed and (number := _as_number(tree, node)) is not None:
        mean = tree.text(number) + "".join(f" / {text}" for text in texts)
        code = mean if isinstance(tree.parent(number), _BARE) else f"({mean})"
        return {Replace(spot_of(tree, number), code)}
    mean += "".join(f" / {text}" for text in texts)
    bare = isinstance(tree.parent(node), _BARE)
    called = isinstance(parent := tree.parent(node), ast.Call) and parent.func is node
    return {Replace(spot_of(tree, node), mean if bare and not called else f"({mean})")}


#: What an expression needs no parentheses in.
_BARE = ast.Call | ast.Assign | ast.AugAssign | ast.Return | ast.keyword | ast.FormattedValue | ast.Dict | ast.Tuple


def _as_number(tree: Tree, node: ast.Name) -> ast.Call | None:
    """``loss.item()`` and ``loss.detach().item()`` around a read: a plain number is divided outside."""
    here: ast.AST = node
    while isinstance(method := tree.parent(here), ast.Attribute) and isinstance(call := tree.parent(method), ast.Call):
        if call.func is not method or call.args or call.keywords:
            return None
        if method.attr == "item":
            return call
        here = call
    return None


def _undone(tree: Tree, node: ast.Name, texts: Sequence[str]) -> ast.BinOp | None:
    """``loss.item() * steps`` around a read."""
    for outer in tree.around(node):
        match outer:
            case ast.BinOp(left=left, op=ast.Mult(), right=right) if (
                tree.contains(left, node) and tree.text(right) in texts
            ):
                return outer
            case ast.stmt():
                return None
            case _:
                pass
    return None


def _is_backward_only(tree: Tree, division: Division) -> bool:
    """Whether a division is in the backward call itself and leaves the variable alone."""
    assert division.spot is not None
    match tree.statement(division.spot):
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="backward" | "manual_backward"))):
            return True
        case _:
            return False


def _by(tree: Tree, division: Division) -> str:
    found = divisor(tree, division)
    if found is None:
        raise DeclinedError("the loss is reported after a division that can't be repeated")
    text = tree.text(found)
    return f"({text})" if isinstance(found, ast.BinOp) else text


def divisor(tree: Tree, division: Division) -> ast.expr | None:
    """What a division divides by, where it is written out."""
    if division.spot is None:
        return None
    for node in tree.at(division.spot):
        match node:
            case ast.BinOp(op=ast.Div(), right=right) | ast.AugAssign(op=ast.Div(), value=right):
                return right
            case ast.Call(args=args) if args:
                return args[-1]
            case ast.Expr(value=ast.Call(args=args)) if args:
                return args[-1]
            case _:
                pass
    return None
