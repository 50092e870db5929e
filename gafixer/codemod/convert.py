"""A plain loop turned into one of Accelerate, as its guide to gradient accumulation over uneven batches describes it.

The loader reads a window ahead and brings its number of items on all processes along, the loss goes backward as a sum
over that number, and gradients are synchronized by the window's last batch only. `accumulate()` has no place in it:
what reads ahead would break its flag for the loader's end.
"""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis.events import EventKind, Framework
from gafixer.analysis.site import Scale
from gafixer.analysis.windows import Shape
from gafixer.codemod import guards
from gafixer.codemod.drawn import Steps, drawn, loader_of, names_in, own_steps
from gafixer.codemod.loss import merged, spot_of, summed
from gafixer.codemod.plan import DeclinedError, Insert, Plan, Remove, Where
from gafixer.codemod.prepared import NAME, adapted, refuse
from gafixer.codemod.read_ahead import going_in
from gafixer.codemod.text import indent, widest
from gafixer.codemod.tree import spelled
from gafixer.codemod.window import Layout, event_statement, layout, models
from gafixer.findings import Applicability

if TYPE_CHECKING:
    from gafixer.analysis.site import Site
    from gafixer.codemod.loss import Summed
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["WINDOWS", "accelerated", "private_windows"]

WINDOWS = "_CountedWindows"
_TEXT = f'''\
class {WINDOWS}:
    """The batches of a prepared loader, each with the number of items of its window on all processes.

    A window is as many batches as the accelerator accumulates, or those that an epoch leaves over. Gradients are
    synchronized by its last batch only.
    """

    def __init__(self, accelerator, model, loader, count):
        self.accelerator, self.model, self.loader, self.count = accelerator, model, loader, count

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        accelerator = self.accelerator
        batches = iter(self.loader)
        while window := list(itertools.islice(batches, accelerator.gradient_accumulation_steps)):
            items = torch.as_tensor(sum(self.count(batch) for batch in window), device=accelerator.device)
            num_items = accelerator.gather(items).sum().clamp(min=1)
            for number, batch in enumerate(window, 1):
                with contextlib.nullcontext() if number == len(window) else accelerator.no_sync(self.model):
                    yield batch, num_items
'''
#: A loss that is longer gets a name before it is weighed.
_SHORT = 32
_IMPORTS = ("import contextlib", "import itertools", "import torch")
_USES = "from accelerate import Accelerator"


def private_windows() -> str:
    """The class that converted files get, as text."""
    return _TEXT


@dataclass(frozen=True, slots=True)
class _Trained:
    """What a loop trains by name."""

    model: str
    optimizer: str
    loader: str
    scheduler: str | None

    @property
    def names(self) -> list[str]:
        return [name for name in (self.model, self.optimizer, self.loader, self.scheduler) if name is not None]


def accelerated(tree: Tree, site: Site) -> Plan:
    """The plan that turns a site's loop into one of Accelerate; its message says what is assumed.

    Raises:
        DeclinedError: it is no plain loop, or something that the loop needs is not in sight.
    """
    place, loop = _loop(tree, site)
    refuse(tree, site, place)
    steps = _steps(tree, site, loop)
    loss = _loss(tree, site, place)
    trained = _trained(tree, site, place, loop, loss)
    names = names_in(tree, place.home)
    known = [ast.parse(name, mode="eval").body for name in trained.names]
    form = f"{WINDOWS}({NAME}, {trained.model}, {{loader}}, {{count}})"
    parts, anchor = drawn(tree, loop, loss.count, names, steps or Steps(ast.Constant(1), restarts=True), form, *known)
    _once(tree, place, anchor)
    parts |= _prepared(tree, anchor, trained, steps)
    parts |= _backward(tree, site, place, loss, names)
    parts |= adapted(tree, site, place, anchor, trained.model)
    if steps is not None and not site.window.flushes:
        parts |= guards.flush(tree, site, mended=False).parts
    imports = tuple(line for line in _IMPORTS if not tree.has(line))
    uses = () if tree.has(_USES) else (_USES,)
    return Plan(frozenset(parts), Applicability.UNSAFE, loss.assumed, functions=(_TEXT,), imports=imports, uses=uses)


def _loop(tree: Tree, site: Site) -> tuple[Layout, ast.For]:
    if site.framework is not Framework.TORCH:
        raise DeclinedError(f"the loop is one of {site.framework.value} already")
    if site.window.shape not in {Shape.GUARDED, Shape.SINGLE} or site.window.step is None:
        raise DeclinedError("it is not in sight how many microbatches a window has")
    place = layout(tree, site)
    loop = next((n for n in tree.around(place.call) if isinstance(n, ast.For)), None)
    inside = loop is not None and tree.function_of(loop) is place.home and place.loop is loop
    if loop is None or not inside or place.shared is not None or place.step is None:
        raise DeclinedError("the window is spread over several functions, or over loops inside each other")
    plain = isinstance(place.backward, ast.Expr) and place.backward.value is place.call
    if not plain or not tree.alone(place.backward):
        raise DeclinedError("backward is not a statement of its own")
    _every_batch(tree, place, loop)
    return place, loop


def _every_batch(tree: Tree, place: Layout, loop: ast.For) -> None:
    """Each batch that was counted must go backward: the window's last one synchronizes the gradients.

    Raises:
        DeclinedError: some don't.
    """
    around = itertools.takewhile(lambda node: node is not loop, tree.around(place.backward))
    if any(isinstance(node, ast.If | ast.Try | ast.For | ast.While | ast.Match) for node in around):
        raise DeclinedError("backward runs for some batches only")
    for node in tree.walk(loop):
        if isinstance(node, ast.Continue | ast.Break) and node.lineno < place.backward.lineno:
            loops = [n for n in tree.around(node) if isinstance(n, ast.For | ast.While)]
            if loops[0] is loop:
                raise DeclinedError("some batches are passed over")


def _steps(tree: Tree, site: Site, loop: ast.For) -> Steps | None:
    """The microbatches of a window; None where each is a window."""
    if site.window.shape is Shape.SINGLE:
        return None
    steps = own_steps(tree, site, loop)
    if steps.start:
        raise DeclinedError("the loop goes on within an epoch: where its first window ends is its own business")
    if not steps.restarts:
        raise DeclinedError("windows go on from epoch to epoch")
    return steps


def _loss(tree: Tree, site: Site, place: Layout) -> Summed:
    if any(term.beside for term in site.terms):
        raise DeclinedError("a term beside the loss has a denominator of its own")
    if not site.terms or any(term.scale is not Scale.MEAN for term in site.terms):
        raise DeclinedError("a part of the loss could not be followed")
    if site.others:
        raise DeclinedError("on other ways to backward the loss is another one")
    if len({event.spot for event in site.happening(EventKind.BACKWARD) if tree.at(event.spot)}) > 1:
        raise DeclinedError("several losses go backward")
    return merged([summed(tree, site, term, place.home, place.call) for term in site.terms])


def _trained(tree: Tree, site: Site, place: Layout, loop: ast.For, loss: Summed) -> _Trained:
    assert place.step is not None
    optimizers = {_receiver(s) for s in _statements(tree, site, place, EventKind.STEP)}
    found = dict.fromkeys(models(tree, place, loss.node, place.home))
    loader, _ = loader_of(loop)
    if len(optimizers) != 1 or None in optimizers:
        raise DeclinedError("the step is not that of one optimizer")
    if len(found) != 1:
        raise DeclinedError("it is not clear which model is trained")
    (optimizer,), (model,) = optimizers, found
    block = tree.block(place.step)
    beside = {_receiver(s) for s in _statements(tree, site, place, EventKind.SCHEDULE) if tree.within(s, block) is s}
    if len(beside) > 1 or None in beside:
        raise DeclinedError("several schedules are advanced")
    scheduler = next(iter(beside), None)
    made = _Trained(model, optimizer or "", spelled(loader) or "", scheduler)
    if not all(name.isidentifier() for name in made.names):
        raise DeclinedError("what is trained has no plain names in this function")
    return made


def _statements(tree: Tree, site: Site, place: Layout, kind: EventKind) -> list[ast.stmt]:
    found = [event_statement(tree, event, place.home) for event in site.happening(kind)]
    return [statement for statement in found if statement is not None]


def _receiver(statement: ast.stmt) -> str | None:
    """The object in ``optimizer.step()``."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=base, attr="step"), args=[], keywords=[])):
            return spelled(base)
        case _:
            return None


def _once(tree: Tree, place: Layout, anchor: ast.stmt) -> None:
    """What is prepared must be prepared once.

    Raises:
        DeclinedError: the function is called again and again.
    """
    name = getattr(place.home, "name", None)
    again = [n for n in tree.around(anchor) if n is not anchor]
    again += [
        outer
        for node in tree.walk(tree.root)
        if isinstance(node, ast.Call) and spelled(node.func) in {name, f"self.{name}"}
        for outer in tree.around(node)
    ]
    if any(isinstance(node, ast.For | ast.While) for node in again):
        raise DeclinedError("the loop is run again and again: what it trains is to be prepared before, by its caller")


def _prepared(tree: Tree, anchor: ast.stmt, trained: _Trained, steps: Steps | None) -> set[Part]:
    names = ", ".join(trained.names)
    given = f"gradient_accumulation_steps={ast.unparse(steps.code)}" if steps is not None else ""
    prepare = f"{names} = {NAME}.prepare({names})"
    if len(prepare) + anchor.col_offset > widest(tree):
        prepare = f"{names} = {NAME}.prepare(\n{indent(tree)}{names}\n)"
    spot = spot_of(tree, anchor)
    return {
        Insert(spot, Where.BEFORE, f"{NAME} = Accelerator({given})", -1),
        Insert(spot, Where.BEFORE, prepare, 0),
    }


def _backward(tree: Tree, site: Site, place: Layout, loss: Summed, names: dict[str, str]) -> set[Part]:
    """``accelerator.backward`` of the sum over the window's items; DDP averages and Accelerate divides again."""
    code, _, parts = going_in(tree, site, place, loss, names)
    here = spot_of(tree, place.backward)
    if len(code) > _SHORT:
        parts.add(Insert(here, Where.BEFORE, f"{names['loss']} = {code}", 5))
        code = names["loss"]
    code = f"{code} * {NAME}.num_processes * {NAME}.gradient_accumulation_steps / {names['window']}"
    more = [f"{k.arg}={tree.text(k.value)}" for k in place.call.keywords if k.arg is not None]
    if place.call.args or len(more) < len(place.call.keywords):
        raise DeclinedError("backward gets a gradient")
    given = ", ".join([code, *more])
    made = f"{NAME}.backward({given})"
    if len(made) + place.backward.col_offset > widest(tree):
        made = f"{NAME}.backward(\n{indent(tree)}{given}\n)"
    return {*parts, Remove(here), Insert(here, Where.AFTER, made)}  # as a statement it may be on several lines
