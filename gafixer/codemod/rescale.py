"""The rescale: backward of the sum, a count beside it, the gradients divided by the window's count before the step."""

from __future__ import annotations

import ast
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from gafixer.analysis.events import Branch, EventKind, Framework
from gafixer.analysis.site import Divisor, Scale
from gafixer.analysis.values import Author, Kind
from gafixer.analysis.windows import Shape
from gafixer.codemod import reports
from gafixer.codemod.alias import alias_of, through_alias
from gafixer.codemod.carried import COUNT
from gafixer.codemod.count import same_count, told_twice
from gafixer.codemod.dividing import Names, dividing
from gafixer.codemod.division import dropped
from gafixer.codemod.loss import merged, spot_of, summed
from gafixer.codemod.plan import DeclinedError, Helper, Insert, Part, Plan, Replace, Unwrap, Where
from gafixer.codemod.spread import Stepping, stepping
from gafixer.codemod.tree import spelled
from gafixer.codemod.window import Layout, event_statement, layout, parameters
from gafixer.findings import Applicability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.analysis.site import Division, LossTerm, Site
    from gafixer.analysis.spot import Spot
    from gafixer.codemod.loss import Summed
    from gafixer.codemod.tree import Tree

__all__ = ["going_backward", "rescale"]

_WRONG = {Divisor.STEPS, Divisor.SAMPLES, Divisor.LOCAL_ITEMS}


def rescale(tree: Tree, site: Site, peers: Sequence[Site]) -> Plan:
    """The plan that puts one division by the window's items in the place of all others.

    `peers` are the sites of the window: this one, its alternatives in other arms of a condition, and those of other
    losses over the same items.

    Raises:
        DeclinedError: something that it needs is not in sight.
    """
    place = layout(tree, site, spread=True)
    apart = stepping(tree, site, place)
    if apart is not None:
        shared = tree.class_of(place.home) if apart.called is None else None
        place = replace(place, step=place.backward, shared=shared)
    _refuse(tree, site, place)
    counted = _alone(site, peers)
    divisions = _divisions(site)
    losses = _losses(tree, site, place)
    boxed = losses[0].boxed
    names = _names(tree, place)
    if apart is not None and apart.called is not None:
        names = replace(names, window=_names(apart.tree, apart.place).window)
    if any(loss.counting for loss in losses):
        _at_backward(tree, place, divisions)
        names = replace(names, own=COUNT)
    parts = {part for loss in losses for part in (*loss.parts, *loss.counting)}
    alias = next((a for d in divisions if (a := alias_of(tree, site, place, d)) is not None), None)
    for division in divisions:
        if alias is None or division.spot != alias.division:
            parts |= dropped(tree, division)
    told = {part for loss in losses for part in reports.reads(tree, place, loss, divisions, names.own)}
    parts |= told
    own = boxed or bool(told) or len({loss.count for loss in losses}) > 1
    if counted is None:
        parts |= _counting(tree, site, place, losses, names, apart, own=own)
    else:
        parts |= _counted_before(tree, site, place, losses, names, counted, own=own)
    if alias is not None:
        parts |= through_alias(tree, place, alias, names.own, boxed=boxed)
    elif boxed:
        parts = _multiplied(tree, site, place, parts, names.own)
    helper = _helper(site)
    if apart is not None:
        parts |= _divided_there(site, apart, names, helper)
    elif counted is None:
        parts |= dividing(tree, site, place, losses[0].node, names, helper)
    said = [loss.assumed for loss in losses if loss.assumed]
    if apart is not None and apart.called is not None:
        said.append(f"that nobody else calls `{apart.called.function.name}`")
    assumed = "; ".join(dict.fromkeys(said))
    applicability = Applicability.SAFE if not assumed and not _has_head(site) else Applicability.UNSAFE
    return Plan(frozenset(parts), applicability, _message(assumed), helper)


def _divided_there(site: Site, apart: Stepping, names: Names, helper: Helper) -> set[Part]:
    """Divide the gradients in the file that steps.

    Raises:
        DeclinedError: its class has a count of that name, or doesn't know who goes backward.
    """
    if helper is Helper.ACCELERATE:
        raise DeclinedError("Accelerate steps in another file")
    owner = apart.place.shared
    if owner is not None and names.window in {spelled(node) for node in ast.walk(owner)}:
        raise DeclinedError(f"the object has a `{names.window}` of its own")
    return dividing(apart.tree, site, apart.place, apart.place.backward, names, helper)


def _message(assumed: str) -> str:
    said = "Divide the window's gradients by its number of items"
    return f"{said}, assuming {assumed}" if assumed else said


def _has_head(site: Site) -> bool:
    return any(t.atom.kind is Kind.HEAD for t in _every(site))


def _every(site: Site) -> list[LossTerm]:
    """The terms of the loss, on whatever way it was computed."""
    return [term for terms in (site.terms, *site.others) for term in terms]


def _losses(tree: Tree, site: Site, place: Layout) -> list[Summed]:
    """The loss as a sum, once for each way through the code on which it is another one.

    Raises:
        DeclinedError: there is a way on which it isn't known.
    """
    found: dict[ast.stmt, Summed] = {}
    for terms in (site.terms, *site.others):
        loss = merged([summed(tree, site, term, place.home, place.call) for term in terms])
        made = tree.statement_of(loss.node)
        assert made is not None
        known = found.setdefault(made, loss)
        if not same_count(known.count, loss.count):
            raise DeclinedError("the same call may give losses over different items")
        if (known.parts, known.counting) != (loss.parts, loss.counting):
            found[made] = _either(known, loss)
    if not tree.dominated(place.backward, found):
        raise DeclinedError("on some ways to backward the loss is another one, which could not be followed")
    if any(loss.boxed for loss in found.values()):
        return [replace(loss.mean or loss, boxed=True, parts=frozenset()) for loss in found.values()]
    # One report reads them all: where one of them is guarded against no items, so is what it reads.
    divisor = max((loss.divisor for loss in found.values()), key=len)
    return [replace(loss, divisor=divisor) for loss in found.values()]


def _either(one: Summed, other: Summed) -> Summed:
    """A call that computes one loss or another: both are asked for their sums, or both stay means.

    Raises:
        DeclinedError: they are counted in different ways.
    """
    if one.counting != other.counting:
        raise DeclinedError("the loss is computed by one of several methods")
    if one.boxed or other.boxed:
        return one.mean or one
    return replace(one, parts=one.parts | other.parts)


def _refuse(tree: Tree, site: Site, place: Layout) -> None:
    if site.framework not in {Framework.TORCH, Framework.FABRIC, Framework.ACCELERATE}:
        raise DeclinedError(f"gradients can't be touched before {site.framework.value} steps")
    if site.window.step is None or place.step is None:
        raise DeclinedError("the step is not in sight")
    if site.window.shape is Shape.SINGLE:
        raise DeclinedError("every microbatch steps")
    if any(t.scale is not Scale.MEAN for t in _every(site)) or not site.terms:
        raise DeclinedError("a part of the loss could not be followed")
    if any(
        isinstance(t, ast.Attribute) and t.attr == "grad"
        for n in tree.walk(place.home)
        if isinstance(n, ast.Assign)
        for t in n.targets
    ):
        raise DeclinedError("the code puts gradients in their place itself")
    around = {loop.id for loop in site.backward.loops}
    if any(t.atom.accumulated is not None and t.atom.accumulated in around for t in _every(site)):
        raise DeclinedError("the loss is added up over the window before backward")


def _alone(site: Site, peers: Sequence[Site]) -> Site | None:
    """One count divides all gradients of the window, so all must come from losses over the items that it counts.

    Gives the site that counts them where this one does not: another loss of the microbatch goes backward before.

    Raises:
        DeclinedError: gradients come from something else.
    """
    around = {f.spot: f.holds for f in site.backward.frames if isinstance(f, Branch)}
    loop = site.window.loop
    known = {peer.backward.spot: peer for peer in peers}
    before: list[Site] = []
    for event in site.happening(EventKind.BACKWARD):
        if event.spot == site.backward.spot or (loop is not None and loop.id not in {f.id for f in event.loops}):
            continue
        apart = any(isinstance(f, Branch) and around.get(f.spot, f.holds) != f.holds for f in event.frames)
        if event.spot not in known:
            raise DeclinedError(
                "another arm of the condition around backward could not be followed"
                if apart
                else "several losses go backward in this window"
            )
        if not apart and event.spot < site.backward.spot:
            before.append(known[event.spot])
    return min(before, key=lambda peer: peer.backward.spot, default=None)


def _divisions(site: Site) -> list[Division]:
    """The code's own divisions of the mean; several terms share one."""
    found: dict[object, Division] = {}
    for term in _every(site):
        for division in term.divisions:
            if division.author is not Author.CODE or division.divisor not in _WRONG or division.spot is None:
                continue
            if division.divisor is Divisor.LOCAL_ITEMS and _makes_the_mean(term):
                continue
            if division.power > 0:
                raise DeclinedError("the loss is multiplied by a count")
            found[division.spot] = division
        for division in term.divisions:
            other = division.divisor in {Divisor.OTHER, Divisor.RANKS} and division.power < 0
            if other or (division.divisor is Divisor.WINDOW_ITEMS and division.author is Author.CODE):
                raise DeclinedError(f"the loss is also scaled by {division.name}")
    return list(found.values())


def _at_backward(tree: Tree, place: Layout, divisions: Sequence[Division]) -> None:
    """What other methods report of the loss stays what it was only where the loss is divided beside backward.

    Raises:
        DeclinedError: it is divided before it gets there.
    """
    for division in divisions:
        here = next(iter(tree.at(division.spot)), None) if division.spot is not None else None
        if here is None or not (tree.function_of(here) is place.home or _is_handed(tree, here, place)):
            raise DeclinedError("the loss is computed and divided far from backward")


def _is_handed(tree: Tree, node: ast.AST, place: Layout) -> bool:
    """Whether a value goes nowhere but into the method that runs backward."""
    match tree.parent(node):
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=attr), args=args):
            return attr == getattr(place.home, "name", "") and any(node is argument for argument in args)
        case _:
            return False


def _makes_the_mean(term: LossTerm) -> bool:
    """Whether a division by the microbatch's own items is what makes a sum a mean."""
    return term.atom.reduction.value != "mean"


def _names(tree: Tree, place: Layout) -> Names:
    taken = tree.taken(place.home if place.called is None else tree.function_of(place.called))
    window = next((n for n in ("num_items", "window_items") if n not in taken), None)
    own = next((n for n in ("items", "batch_items") if n not in taken), None)
    if window is None or own is None:
        raise DeclinedError("the function has a num_items of its own")
    return Names(f"self._{window}" if place.shared is not None else window, own)


def _helper(site: Site) -> Helper:
    if site.framework is Framework.ACCELERATE:
        return Helper.ACCELERATE
    return Helper.RANKS if site.ranks is not None or site.framework is Framework.FABRIC else Helper.ALONE


# -- counting --------------------------------------------------------------------------------------------------------


def _counting(
    tree: Tree,
    site: Site,
    place: Layout,
    losses: Sequence[Summed],
    names: Names,
    apart: Stepping | None,
    *,
    own: bool,
) -> set[Part]:
    """Count beside backward, so that what skips backward is not counted."""
    anchor = _anchor(tree, site, place)
    if not tree.alone(anchor):
        raise DeclinedError("backward shares its line with another statement")
    parts: set[Part] = set()
    for loss in losses if own and names.own != COUNT else ():
        made = tree.statement_of(loss.node)
        assert made is not None
        inside = made is anchor or tree.contains(anchor, made)
        where = (spot_of(tree, anchor), Where.BEFORE) if inside else (spot_of(tree, made), Where.AFTER)
        lines = told_twice(f"{names.own} = {loss.count}", tree.taken(place.home))
        parts |= {Insert(*where, line, rank - len(lines)) for rank, line in enumerate(lines, 1)}
    if apart is not None and apart.called is not None:
        _refuse_skipped(tree, place, anchor)
        return {*parts, apart.counted(tree, place.backward, names.window, losses[0].count)}
    value = names.own if own else losses[0].count
    parts.add(Insert(spot_of(tree, anchor), Where.BEFORE, f"{names.window} += {value}", 1))
    return parts


def _refuse_skipped(tree: Tree, place: Layout, anchor: ast.stmt) -> None:
    """Who counts before a call counts what the call leaves out, too.

    Raises:
        DeclinedError: the function may leave a microbatch out.
    """
    outer = itertools.takewhile(lambda node: node is not place.home, tree.around(anchor))
    leaves = (ast.Return, ast.Raise)
    early = [n for n in tree.walk(place.home) if isinstance(n, leaves) and n.lineno < anchor.lineno]
    if early or any(isinstance(node, ast.If | ast.For | ast.While) for node in outer if node is not anchor):
        raise DeclinedError("the function that goes backward may leave a microbatch out")


def _counted_before(
    tree: Tree, site: Site, place: Layout, losses: Sequence[Summed], names: Names, counted: Site, *, own: bool
) -> set[Part]:
    """The microbatch's items were counted beside another loss: this one is only weighed by them.

    Raises:
        DeclinedError: they are not the same items, or other parameters have the gradients.
    """
    there = layout(tree, counted)
    firsts = _losses(tree, counted, there)
    anchor = _anchor(tree, counted, there)
    if there.home is not place.home or not tree.dominated(place.backward, [anchor]):
        raise DeclinedError("several losses go backward in this window, on different ways through the code")
    counts = {loss.count for loss in (*firsts, *losses)}
    if not all(same_count(firsts[0].count, count) for count in counts):
        raise DeclinedError("several losses go backward in this window, over different items")
    changed = {name.id for count in counts for name in tree.names(ast.parse(count))}
    if any(
        anchor.lineno < s.lineno < place.backward.lineno for name in changed for s in tree.assignments(place.home, name)
    ):
        raise DeclinedError("several losses go backward in this window, over different items")
    given = {
        parameters(tree, s, p, loss.node) for s, p, loss in ((counted, there, firsts[0]), (site, place, losses[0]))
    }
    if len(given) > 1:
        raise DeclinedError("several losses go backward in this window, for different parameters")
    if not own or any(loss.boxed for loss in firsts):
        return set()
    return {Insert(spot_of(tree, place.backward), Where.BEFORE, f"{names.own} = {losses[0].count}", 0)}


def _anchor(tree: Tree, site: Site, place: Layout) -> ast.stmt:
    """The statement that runs backward; where both arms of a condition do, the condition."""
    spots = list(site.happening(EventKind.BACKWARD))
    anchor = here = place.backward
    while isinstance(parent := tree.parent(here), ast.If | ast.With | ast.Try):
        here = parent
        if not isinstance(parent, ast.If):
            continue
        arms = [parent.body, parent.orelse]
        runs = [
            any((s := event_statement(tree, e, place.home)) is not None and tree.within(s, arm) for e in spots)
            for arm in arms
        ]
        if not all(runs):
            break
        anchor = parent
    return anchor


def _multiplied(tree: Tree, site: Site, place: Layout, parts: set[Part], own: str) -> set[Part]:
    """Multiply what goes backward by its count, since it stays a mean."""
    value = going_backward(place.call)
    spot = spot_of(tree, value)
    kept = value
    for part in [p for p in parts if isinstance(p, Unwrap) and p.spot == spot]:
        parts = parts - {part}
        assert isinstance(value, ast.BinOp)
        kept = value.left if part.keep.name == "LEFT" else value.right
    if any(not isinstance(p, Insert) and p.spot != spot and _inside(p, spot) for p in parts):
        raise DeclinedError("what goes backward is computed in the same expression")
    text = tree.text(kept)
    if not isinstance(kept, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        text = f"({text})"
    product = f"{text} * {own}"
    if isinstance(tree.parent(value), ast.Attribute) and not isinstance(value, ast.BinOp):
        product = f"({product})"
    if isinstance(value, ast.BinOp) and isinstance(tree.parent(value), ast.Attribute):
        product = f"({product})"
    return parts | {Replace(spot, product)}


def _inside(part: Part, spot: Spot) -> bool:
    start, end = (part.spot.row, part.spot.column), (part.spot.end_row, part.spot.end_column)
    return (spot.row, spot.column) <= start and end <= (spot.end_row, spot.end_column)


def going_backward(call: ast.Call) -> ast.expr:
    """The loss in a backward call, out of the scaler that it goes through."""
    assert isinstance(call.func, ast.Attribute)
    value = call.args[0] if call.args and not isinstance(call.args[0], ast.Constant) else call.func.value
    match value:
        case ast.Call(func=ast.Attribute(attr="scale"), args=[inner]):
            return inner
        case _:
            return value
