"""Read ahead: the loader yields each batch with its window's count, and the loss is divided by it before backward."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gafixer.analysis.events import EventKind, Framework
from gafixer.analysis.site import Divisor, Scale
from gafixer.analysis.values import Author
from gafixer.analysis.windows import Shape
from gafixer.codemod import reports
from gafixer.codemod.beside import apart
from gafixer.codemod.count import stripped, unparsed
from gafixer.codemod.division import dropped
from gafixer.codemod.loss import merged, spot_of, summed
from gafixer.codemod.plan import DeclinedError, Insert, Keyword, Plan, Replace, Where
from gafixer.codemod.rescale import going_backward
from gafixer.codemod.text import indent, widest
from gafixer.codemod.tree import spelled
from gafixer.codemod.window import Layout
from gafixer.findings import Applicability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.analysis.site import Division, LossTerm, Site
    from gafixer.codemod.loss import Summed
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["WITH_COUNT", "private_form", "read_ahead"]

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
#: What a loop may draw through.
_THROUGH = frozenset({"enumerate", "tqdm", "iter", "track", "trange", "notebook_tqdm", "progress_bar"})


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
    names = _names(tree, home)
    steps = _engine_steps(tree, call) if site.framework is Framework.DEEPSPEED else _own_steps(tree, site, loop)
    parts = _drawn(tree, loop, loss, names, steps)
    parts |= _weighed(tree, site, Layout(home, backward, call, loop, None, None, None), loss, names, beside)
    said = "Divide each loss by the window's number of items, which the loader brings along"
    assumed = loss.assumed or "that nothing else draws from the loader"
    imports = ("import itertools", "import torch", "import torch.distributed as dist")
    return Plan(
        frozenset(parts),
        Applicability.UNSAFE,
        f"{said}, assuming {assumed}",
        functions=(_TEXT,),
        imports=tuple(line for line in imports if not _has(tree, line)),
    )


def private_form() -> str:
    """The class that rewritten files get, as text."""
    return _TEXT


def _has(tree: Tree, line: str) -> bool:
    (wanted,) = ast.parse(line).body
    return any(ast.dump(node) == ast.dump(wanted) for node in tree.root.body)


def _names(tree: Tree, home: ast.AST) -> dict[str, str]:
    """Names for the window's count, the microbatch's own, and the loader that yields counts."""
    taken = tree.taken(home)
    wanted = {"window": ("num_items", "window_items"), "own": ("items", "batch_items"), "loader": ("counted_batches",)}
    found = {key: next((n for n in choice if n not in taken), "") for key, choice in wanted.items()}
    if not all(found.values()):
        raise DeclinedError("the function has a num_items of its own")
    return found


# -- what the loop draws ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Steps:
    """Code for the microbatches of a window, and whether each epoch begins a window, with how many drawn before it."""

    code: ast.expr
    restarts: bool
    start: str = ""


def _engine_steps(tree: Tree, call: ast.Call) -> _Steps:
    assert isinstance(call.func, ast.Attribute)
    code = f"{tree.text(call.func.value)}.gradient_accumulation_steps()"
    return _Steps(ast.parse(code, mode="eval").body, restarts=False)


def _own_steps(tree: Tree, site: Site, loop: ast.For) -> _Steps:
    """The steps as the guard has them: ``(i + 1) % steps == 0``.

    Raises:
        DeclinedError: windows don't end by such a guard in the loop.
    """
    guard = site.window.guard
    test = tree.expression(guard.spot) if guard is not None and site.window.shape is Shape.GUARDED else None
    found = [n for n in ast.walk(test) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)] if test else []
    if len(found) != 1 or not tree.contains(loop, found[0]):
        raise DeclinedError("it is not in sight how many microbatches a window has")
    counters = {n.id for n in ast.walk(found[0].left) if isinstance(n, ast.Name)}
    index = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else None
    if len(counters) == 1 and isinstance(index, ast.Name) and index.id in counters:
        start = _drawn_before(tree, loop, found[0].left)
        if start is not None:
            return _Steps(found[0].right, restarts=True, start=start)
    outer = [n for n in tree.around(loop) if isinstance(n, ast.For | ast.While) and n is not loop]
    for name in counters:
        begun = [s for s in tree.assignments(tree.function_of(loop), name) if isinstance(s, ast.Assign)]
        if len(begun) != 1 or tree.contains(loop, begun[0]):
            raise DeclinedError("it is not in sight where windows begin")
        anew = bool(outer) and tree.contains(outer[0], begun[0])
        return _Steps(found[0].right, restarts=anew or site.window.flush is not None)
    raise DeclinedError("it is not in sight where windows begin")


def _drawn_before(tree: Tree, loop: ast.For, counted: ast.expr) -> str | None:
    """Code for the microbatches before the loop's first one, which its index goes on from; empty where there are none.

    ``i + 1`` for an index from 0 and ``i`` for one from 1 count them; None: the guard counts something else.
    """
    match loop.iter:
        case ast.Call(args=[_], keywords=[]):
            first: ast.expr = ast.Constant(0)
        case ast.Call(args=[_, begun]) | ast.Call(args=[_], keywords=[ast.keyword(arg="start", value=begun)]):
            first = begun
        case _:
            return None
    match counted:
        case ast.BinOp(op=ast.Add(), right=ast.Constant(value=1)):
            before = first
        case ast.Name():
            before = _one_less(first)
        case _:
            return None
    match before:
        case ast.Constant(value=0):
            return ""
        case ast.Constant(value=int(number)) if number < 0:
            return None
        case _:
            return unparsed(before)


def _one_less(node: ast.expr) -> ast.expr:
    match node:
        case ast.Constant(value=int(number)):
            return ast.Constant(number - 1)
        case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=1)):
            return left
        case _:
            return ast.BinOp(node, ast.Sub(), ast.Constant(1))


def _drawn(tree: Tree, loop: ast.For, loss: Summed, names: dict[str, str], steps: _Steps) -> set[Part]:
    loader, target = _loader(loop)
    if isinstance(loader, ast.Call) and spelled(loader.func) in {"range", "zip"}:
        raise DeclinedError("the loop does not draw from a loader")
    count = _of_batch(tree, loop, target, loss.count)
    anchor = _outside(tree, loop, loader, steps.code)
    given = f"{tree.text(loader)}, {ast.unparse(steps.code)}, {count}{', restarts=True' if steps.restarts else ''}"
    if steps.start:
        given += f", start={steps.start}"
    made = f"{names['loader']} = {WITH_COUNT}({given})"
    if len(made) + loop.col_offset > widest(tree):
        made = f"{names['loader']} = {WITH_COUNT}(\n{indent(tree)}{given}\n)"
    text = tree.text(target)
    drawn = f"{text if not isinstance(target, ast.Tuple) or text.startswith('(') else f'({text})'}, {names['window']}"
    if target is not loop.target:
        drawn = f"({drawn})"
    return {
        Insert(spot_of(tree, anchor), Where.BEFORE, made),
        Replace(spot_of(tree, loader), names["loader"]),
        Replace(spot_of(tree, target), drawn),
    }


def _loader(loop: ast.For) -> tuple[ast.expr, ast.expr]:
    """What a loop draws from, and what takes the batch."""
    here, target = loop.iter, loop.target
    while isinstance(here, ast.Call) and here.args:
        last = (spelled(here.func) or "").rpartition(".")[2]
        if last not in _THROUGH:
            break
        if last == "enumerate":
            if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
                raise DeclinedError("what the loop draws is not taken apart")
            target = target.elts[1]
        here = here.args[0]
    return here, target


def _outside(tree: Tree, loop: ast.For, *used_in: ast.expr) -> ast.stmt:
    """The outermost loop before which the loader is known: windows go on from epoch to epoch."""
    home = tree.function_of(loop)
    used = {spelled(n) for node in used_in for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute)}
    anchor: ast.stmt = loop
    for outer in tree.around(loop):
        if isinstance(outer, ast.For | ast.While) and tree.function_of(outer) is home:
            if any(key is not None and tree.assignments(outer, key) for key in used):
                break
            anchor = outer
    return anchor


def _of_batch(tree: Tree, loop: ast.For, target: ast.expr, count: str) -> str:
    """The count as a function of what the loader yields."""
    match target:
        case ast.Name(id=name):
            given: dict[str, str] = {name: name}
            parameter = name
        case ast.Tuple(elts=elements) if all(isinstance(e, ast.Name) for e in elements):
            parameter = "batch"
            given = {e.id: f"batch[{i}]" for i, e in enumerate(elements) if isinstance(e, ast.Name)}
        case _:
            raise DeclinedError("what the loop draws is taken apart in a way that is not known")
    body = _InBatch(tree, loop, given).visit(ast.parse(count, mode="eval").body)
    return f"lambda {parameter}: {unparsed(body)}"


class _InBatch(ast.NodeTransformer):
    """Puts what names were made of in their place, until all is in terms of the batch."""

    def __init__(self, tree: Tree, loop: ast.For, given: dict[str, str]) -> None:
        self._tree, self._loop, self._given = tree, loop, given
        self._active: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name that the loop binds."""
        if node.id in self._given:
            return ast.parse(self._given[node.id], mode="eval").body
        made = self._tree.assignments(self._loop, node.id)
        if not made:
            return node
        values = {ast.dump(s.value): s.value for s in made if isinstance(s, ast.Assign) and len(s.targets) == 1}
        if len(values) != 1 or len(values) != len(made) or node.id in self._active:
            raise DeclinedError(f"`{node.id}` is not known before the batch is used")
        (value,) = values.values()
        self._active.add(node.id)
        found: ast.expr = self.visit(copy.deepcopy(stripped(value)))
        self._active.discard(node.id)
        return found


# -- what goes backward ----------------------------------------------------------------------------------------------


def _weighed(
    tree: Tree, site: Site, place: Layout, loss: Summed, names: dict[str, str], beside: Sequence[LossTerm]
) -> set[Part]:
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
    if beside:
        found = apart(tree, place, kept, divisions, beside)
        parts |= found.parts
        code = f"{found.items} * {names['own']} / {names['window']}"
        code = " + ".join([code, *(f"{term} / {names['loader']}.microbatches" for term in found.beside)])
    else:
        code = f"{_operand(tree, kept)} * {names['own']}" if loss.boxed else _operand(tree, kept)
        code = f"{code} / {names['window']}"
    parts |= _handed_in(tree, place, value, code)
    if site.framework is Framework.DEEPSPEED:
        parts.add(Keyword(spot_of(tree, place.call), "scale_wrt_gas", "False"))
    if loss.boxed or told:
        made = tree.statement_of(loss.node)
        assert made is not None
        inside = made is place.backward or not tree.alone(made)
        where = (spot_of(tree, place.backward), Where.BEFORE) if inside else (spot_of(tree, made), Where.AFTER)
        parts.add(Insert(*where, f"{names['own']} = {loss.count}"))
    return parts


def _operand(tree: Tree, node: ast.expr) -> str:
    text = tree.text(node)
    return text if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript) else f"({text})"


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
