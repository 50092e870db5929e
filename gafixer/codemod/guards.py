"""Guards that count wrong, and windows that the loop leaves over: the condition of the step is mended."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.analysis import algebra
from gafixer.codemod.loss import spot_of
from gafixer.codemod.plan import DeclinedError, Plan, Replace
from gafixer.codemod.text import indent, widest
from gafixer.codemod.window import layout
from gafixer.findings import Applicability

if TYPE_CHECKING:
    from gafixer.analysis.site import Site
    from gafixer.analysis.values import Index
    from gafixer.codemod.tree import Tree

__all__ = ["flush", "guard"]


def guard(tree: Tree, site: Site) -> Plan:
    """Count the microbatches seen so far: ``(i + 1) % steps == 0``."""
    modulo, _ = _modulo(tree, site)
    assert site.window.guard is not None
    missing = site.window.guard.first or 0
    steps = algebra.number(site.window.steps) if site.window.steps is not None else None
    if steps is not None and missing > steps / 2:
        missing -= int(steps)
    code = _counted(modulo.left, missing)
    if " " in code:
        code = f"({code})"
    parts = frozenset({Replace(spot_of(tree, modulo.left), code)})
    return Plan(parts, Applicability.SAFE, "Step after whole windows")


def _counted(left: ast.expr, more: int) -> str:
    """A counter in a guard, plus a number: ``i`` and 1 make ``i + 1``, ``n + 1`` and -1 make ``n``.

    Raises:
        DeclinedError: it is more than a name and a number.
    """
    match left:
        case ast.Name() | ast.Attribute():
            counter, number = left, 0
        case ast.BinOp(
            left=ast.Name() | ast.Attribute() as counter, op=ast.Add(), right=ast.Constant(value=int(number))
        ):
            pass
        case ast.BinOp(
            left=ast.Name() | ast.Attribute() as counter, op=ast.Sub(), right=ast.Constant(value=int(number))
        ):
            number = -number
        case _:
            raise DeclinedError("the guard's count is not a plain index")
    name, number = ast.unparse(counter), number + more
    return name if number == 0 else f"{name} {'+' if number > 0 else '-'} {abs(number)}"


def _modulo(tree: Tree, site: Site) -> tuple[ast.BinOp, Index]:
    found = site.window.guard
    if found is None or found.index is None:
        raise DeclinedError("the guard is not in sight")
    test = tree.expression(found.spot)
    scope: ast.AST | None = test
    if isinstance(test, ast.Name | ast.UnaryOp):
        name = next(iter(tree.names(test))).id
        assigned = tree.assignments(tree.function_of(test), name)
        scope = assigned[0] if len(assigned) == 1 else None
    if scope is None:
        raise DeclinedError("the guard is not in sight")
    moduli = [n for n in tree.walk(scope) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)]
    if len(moduli) != 1:
        raise DeclinedError("the guard is not a plain remainder")
    return moduli[0], found.index


def flush(tree: Tree, site: Site, *, mended: bool) -> Plan:
    """Let the loop's last microbatch step, too. `mended`: the guard's count is being mended by the same plan."""
    place = layout(tree, site)
    found = site.window.guard
    loop = place.loop
    if found is None or not isinstance(loop, ast.For) or found.index is None or place.guard is None:
        raise DeclinedError("the loop's end is not in sight")
    length = _length(loop.iter)
    if length is None:
        raise DeclinedError("the number of microbatches is not known where the guard stands")
    modulo, index = _modulo(tree, site)
    if index.offset is None or not index.restarts:
        raise DeclinedError("the guard's count goes on over epochs")
    seen = _counted(modulo.left, 1 - index.offset)
    test = _comparison(tree, modulo)
    last = f"{seen} == len({tree.text(length)})"
    text = tree.text(test)
    if mended:
        text = text.replace(tree.text(modulo.left), f"({seen})", 1)
    negated = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq)
    code = f"{text} and {seen} != len({tree.text(length)})" if negated else f"{text} or {last}"
    parent = tree.parent(test)
    if isinstance(parent, ast.BoolOp | ast.UnaryOp | ast.Compare):
        code = f"({code})"
    elif isinstance(parent, ast.If) and parent.test is test:
        code = _wrapped(tree, parent, code)
    parts = frozenset({Replace(spot_of(tree, test), code)})
    return Plan(parts, Applicability.UNSAFE, "Step what the loop leaves over")


def _wrapped(tree: Tree, choice: ast.If, code: str) -> str:
    """A condition of two parts on two lines, where one would be too long with what stands behind it."""
    end = tree.line_at(choice.test.end_lineno or choice.lineno)
    behind = len(end.encode()) - (choice.test.end_col_offset or 0)
    if choice.test.col_offset + len(code) + behind <= widest(tree):
        return code
    word = " or " if " or " in code else " and "
    first, _, second = code.rpartition(word)
    more = indent(tree)  # the block's own margin comes with the statement
    return f"(\n{more}{first}\n{more}{word.strip()} {second}\n)"


def _comparison(tree: Tree, modulo: ast.BinOp) -> ast.expr:
    parent = tree.parent(modulo)
    match parent:
        case ast.Compare(ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=0)]):
            return parent
        case ast.Compare():
            raise DeclinedError("the guard is not a plain remainder")
        case ast.UnaryOp(op=ast.Not()):
            return parent
        case _:
            raise DeclinedError("the guard is not a plain remainder")


def _length(node: ast.expr) -> ast.expr | None:
    """What ``len`` can be asked of in ``for ... in node``: a loader, whatever shows its progress."""
    match node:
        case ast.Call(func=ast.Name(id="enumerate" | "tqdm" | "track"), args=[inner, *_]):
            return _length(inner)
        case ast.Call(func=ast.Attribute(attr="tqdm"), args=[inner, *_]):
            return _length(inner)
        case ast.Name() | ast.Attribute():
            return node
        case _:
            return None
