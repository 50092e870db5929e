"""Read ahead: the loader yields each batch with its window's count, and the loss is divided by it before backward."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from gafixer.analysis.events import EventKind, Framework
from gafixer.analysis.site import Divisor, Scale
from gafixer.analysis.values import Author
from gafixer.codemod import reports
from gafixer.codemod.beside import apart
from gafixer.codemod.division import dropped
from gafixer.codemod.drawn import drawn, engine_steps, names_in, own_steps
from gafixer.codemod.loss import merged, spot_of, summed
from gafixer.codemod.plan import DeclinedError, Insert, Keyword, Operand, Plan, Replace, Unwrap, Where
from gafixer.codemod.rescale import going_backward
from gafixer.codemod.text import widest, with_arguments
from gafixer.codemod.window import Layout
from gafixer.findings import Applicability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.analysis.site import Division, LossTerm, Site
    from gafixer.analysis.spot import Spot
    from gafixer.codemod.loss import Summed
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["WITH_COUNT", "going_in", "private_form", "read_ahead"]

WITH_COUNT = "_WithNumItems"
_TEXT = f'''\
class {WITH_COUNT}:
    """The batches of a loader, each with the number of items per rank in the window of `steps` batches that it is in.

    A window that the end of an epoch cuts is a window of its own where epochs restart them; else it goes on with the
    next epoch's first batches, and each part weighs by its length.
    """

    def __init__(self, loader, steps, count, restarts=False, start=0):
        self.loader, self.steps, self.count, self.restarts = loader, steps, count, restarts
        self.start = self.done = start
        self.microbatches = steps

    def __len__(self):
        return len(self.loader)

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def __iter__(self):
        batches = iter(self.loader)
        if self.restarts:
            self.done = self.start
        while window := list(itertools.islice(batches, self.steps - self.done % self.steps)):
            num_items = float(sum(self.count(batch) for batch in window))
            if dist.is_initialized():
                total = torch.tensor(num_items, device="cuda" if dist.get_backend() == "nccl" else "cpu")
                dist.all_reduce(total)
                num_items = total.item() / dist.get_world_size()
            self.microbatches = len(window) if self.restarts else self.steps
            num_items = num_items * self.microbatches / len(window) or 1.0
            for batch in window:
                self.done += 1
                yield batch, num_items
'''


def read_ahead(tree: Tree, site: Site) -> Plan:
    """The plan for a window whose gradients an engine keeps to itself, or shall be left alone.

    Raises:
        DeclinedError: something that it needs is not in sight.
    """
    call = tree.expression(site.backward.spot)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        raise DeclinedError("backward runs in another file")
    home = tree.function_of(call)
    backward = tree.statement_of(call)
    loop = next((n for n in tree.around(call) if isinstance(n, ast.For) and tree.function_of(n) is home), None)
    if backward is None or loop is None or not tree.alone(backward):
        raise DeclinedError("the loop over microbatches is not in sight")
    beside = [t for t in site.terms if t.beside]
    items = [t for t in site.terms if not t.beside]
    if any(t.scale is not Scale.MEAN for t in items) or not items:
        raise DeclinedError("a part of the loss could not be followed")
    if site.others:
        raise DeclinedError("on other ways to backward the loss is another one")
    if len({e.spot for e in site.happening(EventKind.BACKWARD) if tree.at(e.spot)}) > 1:
        raise DeclinedError("several losses go backward in this window")
    loss = merged([summed(tree, site, term, home, call) for term in items])
    if beside:  # what is left whole can be told from what is added to it
        loss = replace(loss, boxed=True, parts=frozenset())
    names = names_in(tree, home)
    steps = engine_steps(tree, call) if site.framework is Framework.DEEPSPEED else own_steps(tree, site, loop)
    given = f"{ast.unparse(steps.code)}, {{count}}{', restarts=True' if steps.restarts else ''}"
    given += f", start={steps.start}" if steps.start else ""
    parts, _ = drawn(tree, loop, loss.count, names, steps, f"{WITH_COUNT}({{loader}}, {given})")
    parts |= _weighed(tree, site, Layout(home, backward, call, loop, None, None, None), loss, names, beside)
    said = "Divide each loss by the window's number of items, which the loader brings along"
    assumed = loss.assumed or "that nothing else draws from the loader"
    imports = ("import itertools", "import torch", "import torch.distributed as dist")
    return Plan(
        frozenset(parts),
        Applicability.UNSAFE,
        f"{said}, assuming {assumed}",
        functions=(_TEXT,),
        imports=tuple(line for line in imports if not tree.has(line)),
    )


def private_form() -> str:
    """The class that rewritten files get, as text."""
    return _TEXT


# -- what goes backward ----------------------------------------------------------------------------------------------


def _weighed(
    tree: Tree, site: Site, place: Layout, loss: Summed, names: dict[str, str], beside: Sequence[LossTerm]
) -> set[Part]:
    total, terms, parts = going_in(tree, site, place, loss, names, beside)
    code = " + ".join([f"{total} / {names['window']}", *(f"{term} / {names['loader']}.microbatches" for term in terms)])
    parts |= _handed_in(tree, place, going_backward(place.call), code)
    if site.framework is Framework.DEEPSPEED:
        parts.add(Keyword(spot_of(tree, place.call), "scale_wrt_gas", "False"))
    return parts


def going_in(
    tree: Tree, site: Site, place: Layout, loss: Summed, names: dict[str, str], beside: Sequence[LossTerm] = ()
) -> tuple[str, tuple[str, ...], set[Part]]:
    """Code for the microbatch's sum where backward runs, and for the terms beside it; nothing else divides them."""
    value = going_backward(place.call)
    divisions = _divisions(site)
    parts: set[Part] = set(loss.parts)
    kept = value
    for division in divisions:
        match value:
            case ast.BinOp(left=left, op=ast.Div()) if division.spot == spot_of(tree, value):
                kept = left
            case _:
                parts |= dropped(tree, division)
    told = reports.reads(tree, place, loss, divisions, names["own"])
    parts |= told
    kept, parts = _taken_apart(tree, value, kept, parts)
    terms: tuple[str, ...] = ()
    code, parts = _written(tree, value, kept, parts)
    if beside:
        found = apart(tree, place, kept, divisions, beside)
        parts |= found.parts
        code, terms = found.items, found.beside
    if loss.boxed:
        code = f"{code} * {names['own']}"
    if loss.boxed or told:
        made = tree.statement_of(loss.node)
        assert made is not None
        inside = made is place.backward or not tree.alone(made)
        where = (spot_of(tree, place.backward), Where.BEFORE) if inside else (spot_of(tree, made), Where.AFTER)
        parts.add(Insert(*where, f"{names['own']} = {loss.count}"))
    return code, terms, parts


def _taken_apart(tree: Tree, value: ast.expr, kept: ast.expr, parts: set[Part]) -> tuple[ast.expr, set[Part]]:
    """What is kept of a value that itself is a division: it is written anew, so nothing else may change it."""
    whole = [p for p in parts if isinstance(p, Unwrap) and p.spot == spot_of(tree, value)]
    for part in whole:
        match part.keep, value:
            case Operand.LEFT, ast.BinOp(left=operand):
                kept = operand
            case Operand.RIGHT, ast.BinOp(right=operand):
                kept = operand
            case Operand.ARGUMENT, ast.Call(args=[operand, *_]):
                kept = operand
            case Operand.RECEIVER, ast.Call(func=ast.Attribute(value=operand)):
                kept = operand
            case _:
                raise DeclinedError("the division has a form that can't be taken apart")
    return kept, parts - set(whole)


def _written(tree: Tree, value: ast.expr, kept: ast.expr, parts: set[Part]) -> tuple[str, set[Part]]:
    """The code of an operand, with the arguments that calls in it get: it is written anew.

    Raises:
        DeclinedError: more than arguments would change in it.
    """
    outer = spot_of(tree, value)
    inside = {p for p in parts if not isinstance(p, Insert) and _is_inside(p.spot, outer)}
    added = {
        call: f"{p.name}={p.code}"
        for p in inside
        if isinstance(p, Keyword)
        for call in tree.at(p.spot)
        if isinstance(call, ast.Call)
    }
    if len(added) < len(inside):
        raise DeclinedError("what goes backward is computed in the same expression")
    text = with_arguments(tree, kept, added) if added else tree.text(kept)
    plain = isinstance(kept, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return (text if plain else f"({text})"), parts - inside


def _is_inside(spot: Spot, outer: Spot) -> bool:
    start, end = (spot.row, spot.column), (spot.end_row, spot.end_column)
    return (outer.row, outer.column) <= start and end <= (outer.end_row, outer.end_column)


def _handed_in(tree: Tree, place: Layout, value: ast.expr, code: str) -> set[Part]:
    """Let other code go backward; in a line of its own where it would be too long."""
    width = (value.end_col_offset or 0) - value.col_offset
    line = tree.line(place.backward)
    if place.backward.lineno == place.backward.end_lineno and len(line) + len(code) - width > widest(tree):
        name = next((n for n in _LOSSES if n not in tree.taken(place.home)), None)
        if name is None:
            raise DeclinedError(f"the function has a `{_LOSSES[0]}` of its own")
        here = spot_of(tree, place.backward)
        return {Insert(here, Where.BEFORE, f"{name} = {code}", 2), Replace(spot_of(tree, value), name)}
    return {Replace(spot_of(tree, value), f"({code})" if isinstance(tree.parent(value), ast.Attribute) else code)}


_LOSSES = ("window_loss", "share_of_window")


def _divisions(site: Site) -> list[Division]:
    """The code's own divisions by the steps; nothing else may scale the loss."""
    found: dict[object, Division] = {}
    for term in site.terms:
        for division in term.divisions:
            if division.author is not Author.CODE or division.spot is None:
                continue
            if division.divisor is Divisor.LOCAL_ITEMS and term.atom.reduction.value != "mean":
                continue
            if term.beside and division.divisor is not Divisor.STEPS:
                continue  # its own weight
            if division.divisor is not Divisor.STEPS or division.power > 0:
                raise DeclinedError(f"the loss is also scaled by {division.name}")
            found[division.spot] = division
    return list(found.values())
