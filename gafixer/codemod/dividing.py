"""The window's count begins where its gradients do, divides them before the step, and begins anew after it."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis.events import EventKind
from gafixer.analysis.windows import Shape
from gafixer.codemod.helper import NAME
from gafixer.codemod.loss import spot_of
from gafixer.codemod.plan import DeclinedError, Helper, Insert, Where
from gafixer.codemod.switches import in_body
from gafixer.codemod.text import indent, widest
from gafixer.codemod.window import Layout, event_statement, first_of, parameters

if TYPE_CHECKING:
    from gafixer.analysis.site import Site
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["Names", "dividing"]


@dataclass(frozen=True, slots=True)
class Names:
    """What the count of the window and that of the microbatch are called."""

    window: str
    own: str


def dividing(tree: Tree, site: Site, place: Layout, node: ast.AST, names: Names, helper: Helper) -> set[Part]:
    """Start the count, divide by it before the step, start it anew; the same where a flush steps."""
    given = parameters(tree, site, place, node)
    accelerator = _accelerator(tree, place) if helper is Helper.ACCELERATE else ""
    divide = _fitted(tree, place, f"{accelerator}{given}, {names.window}")
    parts: set[Part] = set()
    match site.window.shape:
        case Shape.NESTED:
            if place.loop is None or place.shared is not None:
                raise DeclinedError("the window's loop is not beside its step")
            loop = spot_of(tree, place.loop)
            parts |= {Insert(loop, Where.BEFORE, f"{names.window} = 0"), Insert(loop, Where.AFTER, divide)}
            return parts
        case Shape.GUARDED:
            parts |= _in_block(tree, site, place, divide, names)
        case Shape.FRAMEWORK:
            parts |= _when_syncing(tree, site, place, divide, names, accelerator.rstrip(", "))
        case _:
            raise DeclinedError("the step is not in sight")
    parts |= _start(tree, site, place, names) | _restarts(tree, site, place, names)
    if site.window.flush is not None:
        parts |= _flush(tree, site, place, divide, names.window)
    return parts


def _fitted(tree: Tree, place: Layout, given: str) -> str:
    """The call of the helper, on several lines where it would be long."""
    code = f"{NAME}({given})"
    if place.step is None or place.step.col_offset + len(code) <= widest(tree):
        return code
    return f"{NAME}(\n{indent(tree)}{given}\n)"


def _in_block(tree: Tree, site: Site, place: Layout, divide: str, names: Names) -> set[Part]:
    if not place.guarded or place.guard is None:
        raise DeclinedError("the guard of the step is not a plain condition")
    # Where backward itself runs in this block, only what follows it may touch the gradients.
    block = place.guarded
    inside = None if place.apart else tree.within(place.backward, block)
    first = block[0]
    if inside is not None:
        after = [s for s in block if s.lineno > inside.lineno]
        found = first_of(tree, site, after, tree.function_of(place.guard))
        if found is None:
            raise DeclinedError("the step is not in sight")
        first = found
    if not _has_own_line(tree, first, place.guard):
        raise DeclinedError("the guarded block is on one line")
    spot = spot_of(tree, first)
    return {Insert(spot, Where.START, divide, 0), Insert(spot, Where.START, f"{names.window} = 0", 1)}


def _has_own_line(tree: Tree, statement: ast.stmt, header: ast.stmt) -> bool:
    return statement.lineno > header.lineno and (
        not isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign) or tree.alone(statement)
    )


def _when_syncing(tree: Tree, site: Site, place: Layout, divide: str, names: Names, accelerator: str) -> set[Part]:
    """Under ``accumulate()`` every microbatch calls step; gradients are whole where they are synchronized."""
    assert place.step is not None
    function = tree.function_of(place.step)
    if place.guard is not None and place.guarded:
        return _in_block(tree, site, place, divide, names)
    if not accelerator:
        raise DeclinedError("the framework decides when to step")
    block = tree.block(place.step)
    if function is place.home and tree.within(place.backward, block) is None:
        raise DeclinedError("the step is not beside backward")
    for statement in block:
        between = place.backward.lineno < statement.lineno < place.step.lineno
        if between and isinstance(statement, ast.If) and ast.unparse(statement.test).endswith(".sync_gradients"):
            if statement.body[0].lineno == statement.lineno:
                raise DeclinedError("the guarded block is on one line")
            spot = spot_of(tree, statement.body[0])
            return {Insert(spot, Where.START, divide, 0), Insert(spot, Where.START, f"{names.window} = 0", 1)}
    first = first_of(tree, site, [s for s in block if s.lineno > place.backward.lineno], function)
    if first is None or not tree.alone(first):
        raise DeclinedError("the step is not beside backward")
    code = f"if {accelerator}.sync_gradients:\n{textwrap.indent(divide, '    ')}\n    {names.window} = 0\n"
    return {Insert(spot_of(tree, first), Where.BEFORE, code)}


def _accelerator(tree: Tree, place: Layout) -> str:
    assert isinstance(place.call.func, ast.Attribute)
    return f"{tree.text(place.call.func.value)}, "


def _start(tree: Tree, site: Site, place: Layout, names: Names) -> set[Part]:
    """The count begins where the gradients do: they are cleared before an epoch, or once before all."""
    if place.apart and place.shared is not None:
        return set(in_body(tree, place.shared, f"{names.window.removeprefix('self.')} = 0"))
    if place.shared is not None:
        return _start_in_init(tree, place.shared, names)
    if place.called is not None:
        return _start_around(tree, place.called, names)
    if place.loop is None:
        raise DeclinedError("the loop over microbatches is not in sight")
    anchor: ast.stmt = place.loop
    outer = [n for n in tree.around(place.loop) if isinstance(n, ast.For | ast.While)]
    outer = [n for n in outer if tree.function_of(n) is place.home]
    clears = [s for e in site.happening(EventKind.CLEAR) if (s := event_statement(tree, e, place.home)) is not None]
    for loop in outer:
        anchor = loop
        inside = tree.parent(loop)
        block = tree.block(loop)
        if any(s.lineno < loop.lineno and tree.within(s, block) is s for s in clears) or not isinstance(
            inside, ast.AST
        ):
            break
    return {Insert(spot_of(tree, anchor), Where.BEFORE, f"{names.window} = 0")}


def _restarts(tree: Tree, site: Site, place: Layout, names: Names) -> set[Part]:
    """Where gradients are thrown away in the middle of a window, its count is, too."""
    parts: set[Part] = set()
    steps = [s for e in site.happening(EventKind.STEP) if (s := event_statement(tree, e, place.home)) is not None]
    ends = [tree.block(s) for s in steps] + ([place.guarded] if place.guarded else [])
    for event in site.happening(EventKind.CLEAR):
        statement = event_statement(tree, event, place.home)
        if statement is None or place.loop is None or not tree.contains(place.loop, statement):
            continue
        inside = any(tree.within(statement, block) is not None for block in ends)
        if not inside and site.branches(event) and site.window.shape is Shape.GUARDED and tree.alone(statement):
            parts.add(Insert(spot_of(tree, statement), Where.AFTER, f"{names.window} = 0", 9))
    return parts


def _start_around(tree: Tree, function: ast.FunctionDef, names: Names) -> set[Part]:
    """The count begins before the function that is called for each microbatch, and lasts from call to call."""
    scope = tree.function_of(function)
    others = [n for n in tree.walk(scope) if isinstance(n, ast.Call) and not tree.contains(function, n)]
    if any(isinstance(call.func, ast.Attribute) and call.func.attr == "backward" for call in others):
        raise DeclinedError("several functions go backward beside each other")
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if function.decorator_list or not body or body[0].lineno == function.lineno:
        raise DeclinedError("the function that is called for each microbatch can't be given a count")
    word = "global" if isinstance(scope, ast.Module) else "nonlocal"
    return {
        Insert(spot_of(tree, function), Where.BEFORE, f"{names.window} = 0"),
        Insert(spot_of(tree, body[0]), Where.START, f"{word} {names.window}", -1),
    }


def _start_in_init(tree: Tree, cls: ast.ClassDef, names: Names) -> set[Part]:
    init = next((n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    if init is None or init.body[-1].lineno <= init.lineno or isinstance(init.body[-1], ast.Return):
        raise DeclinedError("the class has no __init__ to start the count in")
    return {Insert(spot_of(tree, init.body[-1]), Where.AFTER, f"{names.window} = 0")}


def _flush(tree: Tree, site: Site, place: Layout, divide: str, name: str) -> set[Part]:
    """What the loop leaves over is divided by its own count; there may be nothing left."""
    assert site.window.flush is not None
    function = tree.function_of(place.loop) if place.loop is not None else place.home
    statement = event_statement(tree, site.window.flush, function)
    if statement is None:
        raise DeclinedError("the flush is not in sight")
    block = tree.block(statement)
    first = first_of(tree, site, block, function) or statement
    if not tree.alone(first):
        raise DeclinedError("the flush shares its line with another statement")
    parent = tree.parent(statement)
    spot = spot_of(tree, first)
    again = place.shared is not None or any(isinstance(n, ast.For | ast.While) for n in tree.around(statement))
    if isinstance(parent, ast.If) and parent.lineno > (place.loop.lineno if place.loop is not None else 0):
        parts: set[Part] = {Insert(spot, Where.BEFORE, divide, 0)}
        return parts | ({Insert(spot, Where.BEFORE, f"{name} = 0", 1)} if again else set())
    reset = f"    {name} = 0\n" if again else ""
    return {Insert(spot, Where.BEFORE, f"if {name}:\n{textwrap.indent(divide, '    ')}\n{reset}")}
