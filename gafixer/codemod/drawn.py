"""What a loop over microbatches draws, and how it tells windows apart: for loaders that bring counts along."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis.windows import Shape
from gafixer.codemod.count import stripped, unparsed
from gafixer.codemod.loss import spot_of
from gafixer.codemod.plan import DeclinedError, Insert, Replace, Where
from gafixer.codemod.text import indent, widest
from gafixer.codemod.tree import spelled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gafixer.analysis.site import Site
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["Steps", "drawn", "engine_steps", "loader_of", "names_in", "own_steps"]

#: What a loop may draw through.
_THROUGH = frozenset({"enumerate", "tqdm", "iter", "track", "trange", "notebook_tqdm", "progress_bar"})


def names_in(tree: Tree, home: ast.AST) -> dict[str, str]:
    """Names for the window's count, the microbatch's own, its loss, and the loader that yields counts."""
    taken = tree.taken(home)
    wanted = {
        "window": ("num_items", "window_items"),
        "own": ("items", "batch_items"),
        "loss": ("loss", "batch_loss"),
        "loader": ("counted_batches",),
    }
    found = {key: next((n for n in choice if n not in taken), "") for key, choice in wanted.items()}
    if not all(name for key, name in found.items() if key != "loss"):
        raise DeclinedError("the function has a num_items of its own")
    return found


@dataclass(frozen=True, slots=True)
class Steps:
    """Code for the microbatches of a window, and whether each epoch begins a window, with how many drawn before it."""

    code: ast.expr
    restarts: bool
    start: str = ""


def engine_steps(tree: Tree, call: ast.Call) -> Steps:
    assert isinstance(call.func, ast.Attribute)
    code = f"{tree.text(call.func.value)}.gradient_accumulation_steps()"
    return Steps(ast.parse(code, mode="eval").body, restarts=False)


def own_steps(tree: Tree, site: Site, loop: ast.For) -> Steps:
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
            return Steps(found[0].right, restarts=True, start=start)
    outer = [n for n in tree.around(loop) if isinstance(n, ast.For | ast.While) and n is not loop]
    for name in counters:
        begun = [s for s in tree.assignments(tree.function_of(loop), name) if isinstance(s, ast.Assign)]
        if len(begun) != 1 or tree.contains(loop, begun[0]):
            raise DeclinedError("it is not in sight where windows begin")
        anew = bool(outer) and tree.contains(outer[0], begun[0])
        return Steps(found[0].right, restarts=anew or site.window.flush is not None)
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


def drawn(
    tree: Tree, loop: ast.For, count: str, names: Mapping[str, str], steps: Steps, form: str, *more: ast.expr
) -> tuple[set[Part], ast.stmt]:
    """Let a loop draw batches with their window's count, and the statement before which what counts them is made.

    `form` is the code that makes it, with places for the ``{loader}`` and the ``{count}`` of a batch, which are to be
    known there as what `more` is.
    """
    loader, target = loader_of(loop)
    if isinstance(loader, ast.Call) and spelled(loader.func) in {"range", "zip"}:
        raise DeclinedError("the loop does not draw from a loader")
    start = [ast.parse(steps.start, mode="eval").body] if steps.start else []
    anchor = _outside(tree, loop, loader, steps.code, *start, *more)
    given = form.replace("{count}", _of_batch(tree, loop, target, count)).replace("{loader}", tree.text(loader))
    name, _, arguments = given.partition("(")
    made = f"{names['loader']} = {given}"
    if len(made) + anchor.col_offset > widest(tree):
        made = f"{names['loader']} = {name}(\n{indent(tree)}{arguments[:-1]}\n)"
    text = tree.text(target)
    code = f"{text if not isinstance(target, ast.Tuple) or text.startswith('(') else f'({text})'}, {names['window']}"
    if target is not loop.target:
        code = f"({code})"
    parts: set[Part] = {
        Insert(spot_of(tree, anchor), Where.BEFORE, made, 1),
        Replace(spot_of(tree, loader), names["loader"]),
        Replace(spot_of(tree, target), code),
    }
    return parts, anchor


def loader_of(loop: ast.For) -> tuple[ast.expr, ast.expr]:
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
        values = {ast.dump(v): v for s in made if (v := _given_to(s, node.id)) is not None}
        if len(values) != 1 or len(values) != len(made) or node.id in self._active:
            raise DeclinedError(f"`{node.id}` is not known before the batch is used")
        (value,) = values.values()
        self._active.add(node.id)
        found: ast.expr = self.visit(copy.deepcopy(stripped(value)))
        self._active.discard(node.id)
        return found


def _given_to(statement: ast.stmt, name: str) -> ast.expr | None:
    """What an assignment gives a name: of ``x, y = batch`` a part."""
    match statement:
        case ast.Assign(targets=[ast.Name()], value=value):
            return value
        case ast.Assign(targets=[ast.Tuple(elts=targets) | ast.List(elts=targets)], value=value) if all(
            isinstance(target, ast.Name) for target in targets
        ):
            position = next(i for i, target in enumerate(targets) if spelled(target) == name)
            match value:
                case ast.Tuple(elts=values) if len(values) == len(targets):
                    return values[position]
                case ast.Name() | ast.Attribute() | ast.Subscript():
                    return ast.Subscript(value, ast.Constant(position), ast.Load())
                case _:
                    return None
        case _:
            return None
