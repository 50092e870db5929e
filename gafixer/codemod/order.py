"""Faults of order: what stands in the window and belongs at its end."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.analysis.events import EventKind, Framework
from gafixer.analysis.windows import Shape
from gafixer.codemod.count import is_pure
from gafixer.codemod.loss import spot_of
from gafixer.codemod.plan import DeclinedError, Insert, Move, Plan, Remove, Where
from gafixer.codemod.tree import Tree, spelled
from gafixer.codemod.window import Layout, event_statement, layout
from gafixer.findings import Applicability

if TYPE_CHECKING:
    from gafixer.analysis.events import Event
    from gafixer.analysis.site import Site
    from gafixer.analysis.spot import Spot
    from gafixer.codemod.plan import Part

__all__ = ["backward_out", "clear", "clip", "schedule", "step_out"]


def _statement(tree: Tree, site: Site, place: Layout, event: Event) -> ast.stmt:
    statement = event_statement(tree, event, tree.function_of(place.step or place.backward))
    if statement is None or not isinstance(statement, ast.Expr | ast.Assign) or not tree.alone(statement):
        raise DeclinedError("the statement to move is in another function, or shares its line")
    return statement


def _movable(tree: Tree, statement: ast.stmt, anchor: ast.stmt, place: Layout) -> None:
    """What a moved statement binds must not be read between its old place and its new one.

    Raises:
        DeclinedError: it is.
    """
    match statement:
        case ast.Assign(targets=targets):
            scope = place.loop or place.home
            for target in targets:
                key = spelled(target)
                reads = [n for n in tree.reads(scope, key) if n.lineno < anchor.lineno] if key else [target]
                if reads:
                    raise DeclinedError("what the statement returns is used for every microbatch")
        case _:
            pass


def _plan(parts: set[Part], message: str, applicability: Applicability = Applicability.SAFE) -> Plan:
    return Plan(frozenset(parts), applicability, message)


def _end(tree: Tree, site: Site, place: Layout) -> tuple[ast.stmt, list[ast.stmt]]:
    """The step that ends the window, and the block that it is in."""
    if place.step is None or site.window.shape not in {Shape.GUARDED, Shape.NESTED} or place.shared is not None:
        raise DeclinedError("the window's end is not in sight")
    return place.step, tree.block(place.step)


# -- clearing --------------------------------------------------------------------------------------------------------


def clear(tree: Tree, site: Site, event_spot: Spot) -> Plan:
    """Clear after the step instead of before backward; where the window is a loop of its own, before that loop."""
    place = layout(tree, site)
    event = next((e for e in site.happening(EventKind.CLEAR) if e.spot == event_spot), None)
    if event is None:
        raise DeclinedError("the call that clears is in another file")
    statement = _statement(tree, site, place, event)
    others = [
        s
        for e in site.happening(EventKind.CLEAR)
        if e is not event and (s := event_statement(tree, e, place.home)) is not None and s is not statement
    ]
    here = spot_of(tree, statement)
    message = "Clear gradients once per window"
    if site.window.shape is Shape.NESTED and place.loop is not None and place.shared is None:
        block = tree.block(place.loop)
        if any(tree.within(s, block) is s for s in others):
            return _plan({Remove(here)}, message)
        return _plan({Move(here, spot_of(tree, place.loop), Where.BEFORE)}, message)
    if place.step is None:
        raise DeclinedError("the step is not in sight")
    block = tree.block(place.step)
    last = _after_step(tree, site, place, block)
    if any(tree.within(s, block) is s and s.lineno > place.step.lineno for s in others):
        parts: set[Part] = {Remove(here)}
    else:
        parts = {Move(here, spot_of(tree, last), Where.AFTER, rank=5)}
    if (
        site.framework is not Framework.ACCELERATE
        and place.loop is not None
        and not _cleared_before(tree, place, others)
    ):
        start = tree.text(statement)
        parts.add(Insert(spot_of(tree, _outermost(tree, place)), Where.BEFORE, start, -1))
    return _plan(parts, message)


def _cleared_before(tree: Tree, place: Layout, clears: list[ast.stmt]) -> bool:
    assert place.loop is not None
    return any(s.lineno < place.loop.lineno for s in clears)


def _outermost(tree: Tree, place: Layout) -> ast.stmt:
    assert place.loop is not None
    loops = [
        n for n in tree.around(place.loop) if isinstance(n, ast.For | ast.While) and tree.function_of(n) is place.home
    ]
    return loops[-1]


def _after_step(tree: Tree, site: Site, place: Layout, block: list[ast.stmt]) -> ast.stmt:
    """The step, or the scaler's update that belongs to it."""
    assert place.step is not None
    last = place.step
    for statement in block:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="update", value=base))) if (
                statement.lineno > last.lineno and "scaler" in (spelled(base) or "").lower()
            ):
                last = statement
            case _:
                pass
    return last


# -- clipping --------------------------------------------------------------------------------------------------------


def clip(tree: Tree, site: Site, event_spot: Spot) -> Plan:
    """Clip right before the step, after `unscale_` where a scaler takes it."""
    place = layout(tree, site)
    event = next((e for e in site.happening(EventKind.CLIP) if e.spot == event_spot), None)
    if event is None:
        raise DeclinedError("the clip is in another file")
    if site.framework is Framework.ACCELERATE:
        return _clip_when_syncing(tree, site, place, event)
    statement = _statement(tree, site, place, event)
    step, block = _end(tree, site, place)
    choice = _choice(tree, statement, step)
    if choice is not None:
        return _clip_by_choice(tree, site, place, choice, step)
    _movable(tree, statement, step, place)
    anchor = spot_of(tree, step)
    parts: set[Part] = set()
    if tree.within(statement, block) is not statement:
        parts.add(Move(spot_of(tree, statement), anchor, Where.BEFORE, rank=3))
    elif site.window.step is None or site.window.step.value is None:
        raise DeclinedError("the clip is in its place already")
    unscaled = [s for e in site.happening(EventKind.UNSCALE) if (s := event_statement(tree, e, place.home)) is not None]
    if site.window.step is not None and site.window.step.value is not None:
        parts |= _unscale(tree, site, place, statement, unscaled, step, parts)
    if (flush := _flush(tree, site, place)) is not None:
        parts.add(Insert(spot_of(tree, flush), Where.BEFORE, tree.text(statement), 3))
    return _plan(parts, "Clip once per window, right before the step")


def _choice(tree: Tree, statement: ast.stmt, step: ast.stmt) -> ast.If | None:
    """The condition that a statement is under, and the step is not."""
    around = [n for n in tree.around(statement) if isinstance(n, ast.If) and not tree.contains(n, step)]
    return around[0] if around else None


def _clip_by_choice(tree: Tree, site: Site, place: Layout, choice: ast.If, step: ast.stmt) -> Plan:
    """Clips in the arms of a condition, as ``if fp16: ... else: ...`` around backward has them, go with it.

    Raises:
        DeclinedError: the condition, or what it guards, is more than that.
    """
    arms: list[str] = []
    parts: set[Part] = set()
    clips = [_statement(tree, site, place, e) for e in site.happening(EventKind.CLIP)]
    for arm in (choice.body, choice.orelse):
        here = [s for s in dict.fromkeys(clips) if _is_of(tree, s, arm)]
        if not all(isinstance(s, ast.Expr) for s in here) or len(here) > 1:
            raise DeclinedError("what the statement returns is used for every microbatch")
        arms.append(tree.text(here[0]) if here else "")
        parts |= {Remove(spot_of(tree, s)) for s in here}
    nested = any(isinstance(n, ast.If) and not tree.contains(n, step) for n in list(tree.around(choice))[1:])
    if nested or not parts or not is_pure(choice.test) or site.happening(EventKind.UNSCALE):
        raise DeclinedError("the clip is under a condition of its own")
    first, then = arms
    code = f"if {tree.text(choice.test)}:\n    {first or 'pass'}\n" + (f"else:\n    {then}\n" if then else "")
    parts.add(Insert(spot_of(tree, step), Where.BEFORE, code, 3))
    if (flush := _flush(tree, site, place)) is not None:
        parts.add(Insert(spot_of(tree, flush), Where.BEFORE, code, 3))
    return _plan(parts, "Clip once per window, right before the step")


def _is_of(tree: Tree, statement: ast.stmt, arm: list[ast.stmt]) -> bool:
    """Whether a statement runs with an arm: as one of it, or in a ``with`` of it, as Apex has one around backward."""
    outer = tree.within(statement, arm)
    return outer is statement or (isinstance(outer, ast.With) and any(statement is own for own in outer.body[1:]))


def _flush(tree: Tree, site: Site, place: Layout) -> ast.stmt | None:
    """The step for what the loop leaves over: what goes with a step goes with this one, too."""
    if site.window.flush is None:
        return None
    found = event_statement(tree, site.window.flush, place.home)
    if found is None or not tree.alone(found):
        raise DeclinedError("the flush is not in sight")
    return found


def _unscale(
    tree: Tree,
    site: Site,
    place: Layout,
    statement: ast.stmt,
    unscaled: list[ast.stmt],
    step: ast.stmt,
    moved: set[Part],
) -> set[Part]:
    block = tree.block(step)
    if any(tree.within(s, block) is not None for s in unscaled):
        return set()
    anchor = spot_of(tree, step if moved else statement)
    if unscaled:
        if not isinstance(unscaled[0], ast.Expr) or not tree.alone(unscaled[0]):
            raise DeclinedError("unscale_ can't be moved")
        return {Move(spot_of(tree, unscaled[0]), anchor, Where.BEFORE, rank=2)}
    match step:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=scaler, attr="step"), args=[optimizer, *_])):
            code = f"{tree.text(scaler)}.unscale_({tree.text(optimizer)})"
            return {Insert(anchor, Where.BEFORE, code, 2)}
        case _:
            raise DeclinedError("the scaler's step is not in sight")


def _clip_when_syncing(tree: Tree, site: Site, place: Layout, event: Event) -> Plan:
    statement = _statement(tree, site, place, event)
    if not isinstance(statement, ast.Expr) or not isinstance(place.call.func, ast.Attribute):
        raise DeclinedError("what the clip returns is used for every microbatch")
    here = spot_of(tree, statement)
    code = f"if {tree.text(place.call.func.value)}.sync_gradients:\n    {tree.text(statement)}\n"
    parts: set[Part] = {Insert(here, Where.AFTER, code), Remove(here)}
    return _plan(parts, "Clip where gradients are whole")


# -- the schedule, backward, the step --------------------------------------------------------------------------------


def schedule(tree: Tree, site: Site, event_spot: Spot) -> Plan:
    """Advance the schedule right after the step."""
    place = layout(tree, site)
    event = next((e for e in site.happening(EventKind.SCHEDULE) if e.spot == event_spot), None)
    if event is None:
        raise DeclinedError("the schedule is advanced in another file")
    statement = _statement(tree, site, place, event)
    _, block = _end(tree, site, place)
    last = _after_step(tree, site, place, block)
    if site.window.shape is Shape.GUARDED:
        last = _last_clear(tree, site, place, block) or last
    parts: set[Part] = {Move(spot_of(tree, statement), spot_of(tree, last), Where.AFTER, rank=4)}
    if (flush := _flush(tree, site, place)) is not None:
        parts.add(Insert(spot_of(tree, flush), Where.AFTER, tree.text(statement), 4))
    return _plan(parts, "Advance the schedule with the optimizer")


def _last_clear(tree: Tree, site: Site, place: Layout, block: list[ast.stmt]) -> ast.stmt | None:
    """The call that clears at the very end of the guarded block: the schedule goes after it, as it did."""
    for event in site.happening(EventKind.CLEAR):
        statement = event_statement(tree, event, place.home)
        if statement is not None and statement is block[-1]:
            return statement
    return None


def backward_out(tree: Tree, site: Site) -> Plan:
    """Run backward for every microbatch: in front of the guard."""
    place = layout(tree, site)
    parent = tree.parent(place.backward)
    if not isinstance(parent, ast.If) or place.backward not in parent.body or not tree.alone(place.backward):
        raise DeclinedError("backward is not a statement of the guarded block")
    before = [s for s in parent.body if s.lineno < place.backward.lineno]
    if before:
        raise DeclinedError("the guarded block does something before backward")
    move = Move(spot_of(tree, place.backward), spot_of(tree, parent), Where.BEFORE, rank=1)
    return _plan({move}, "Run backward for every microbatch")


def step_out(tree: Tree, site: Site) -> Plan:
    """Step after the loop over the window's microbatches."""
    place = layout(tree, site)
    # A loop of a length of its own is over a window; one over all that a loader has is not.
    window = site.window.loop is not None and site.window.loop.trips is not None and len(site.window.outer) > 0
    if place.loop is None or place.step is None or place.shared is not None or not window:
        raise DeclinedError("whether to accumulate or to drop the division is the author's choice")
    block = place.loop.body
    first = tree.within(place.step, block)
    position = next((i for i, s in enumerate(block) if s is first), None)
    if position is None or first is not place.step:
        raise DeclinedError("the step is under a condition of its own")
    start = position
    for event in (*site.happening(EventKind.CLIP), *site.happening(EventKind.UNSCALE)):
        statement = event_statement(tree, event, place.home)
        if statement is not None and statement in block and statement.lineno > place.backward.lineno:
            start = min(start, block.index(statement))
    moved = block[start:]
    known = {
        id(s)
        for e in site.events
        if (s := event_statement(tree, e, place.home)) is not None and e.kind is not EventKind.LOG
    }
    if any(id(s) not in known and not _is_update(s) for s in moved) or not all(tree.alone(s) for s in moved):
        raise DeclinedError("what follows the step in the loop may belong to the microbatch")
    anchor = spot_of(tree, place.loop)
    parts: set[Part] = {Move(spot_of(tree, s), anchor, Where.AFTER, rank=i) for i, s in enumerate(moved)}
    return _plan(parts, "Step once per window")


def _is_update(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="update"))):
            return True
        case _:
            return False
