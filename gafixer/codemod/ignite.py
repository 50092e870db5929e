"""ignite's own supervised trainer: the loss sums, handlers count its items, and divide before the optimizer steps."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis.site import Scale
from gafixer.codemod.helper import NAME
from gafixer.codemod.loss import items_of
from gafixer.codemod.plan import DeclinedError, Helper, Insert, Keyword, Plan, Replace, Where
from gafixer.codemod.text import indent
from gafixer.codemod.tree import spelled, spot_of
from gafixer.data.frameworks import IGNITE_STEPS, IGNITE_TRAINER
from gafixer.findings import Applicability

if TYPE_CHECKING:
    from gafixer.analysis.site import LossTerm, Site
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["in_handlers"]

#: What a batch's target is for the trainer, and for what it is asked to report.
_TARGET, _REPORTED = "engine.state.batch[1]", "y"
#: Arguments that change what the targets are, what is reported, or who has the gradients.
_OTHERWISE = frozenset({"prepare_batch", "output_transform", "amp_mode"})
_COUNT = """\
@{trainer}.on(Events.ITERATION_STARTED)
def count_items(engine):
{margin}{word} {num_items}
{margin}if (engine.state.iteration - 1) % {steps} == 0:
{margin}{margin}{num_items} = 0
{margin}{num_items} += {count}
"""
_DIVIDE = """\
@{optimizer}.register_step_pre_hook
def divide_gradients(*_):
{margin}{helper}({model}.parameters(), {num_items} / {steps})
"""


@dataclass(frozen=True, slots=True)
class _Made:
    """The statement that makes the trainer, and the code of what it is given."""

    statement: ast.stmt
    call: ast.Call
    trainer: str
    model: str
    optimizer: str
    loss: ast.expr
    steps: str


def in_handlers(tree: Tree, site: Site) -> Plan:
    """The plan for a trainer that divides each loss by the steps.

    Raises:
        DeclinedError: something that it needs is not in sight.
    """
    made = _made(tree, site)
    if len(site.terms) != 1 or site.terms[0].scale is not Scale.MEAN:
        raise DeclinedError("a part of the loss could not be followed")
    (term,) = site.terms
    scope = tree.function_of(made.call)
    name = next((n for n in ("num_items", "window_items") if n not in tree.taken(scope)), None)
    if name is None or {"count_items", "divide_gradients"} & tree.taken(scope):
        raise DeclinedError("the function has a num_items of its own")
    words = {
        "margin": indent(tree),
        "word": "global" if isinstance(scope, ast.Module) else "nonlocal",
        "helper": NAME,
        "num_items": name,
        "trainer": made.trainer,
        "model": made.model,
        "optimizer": made.optimizer,
        "steps": made.steps,
        "count": _count(tree, term, made, _TARGET),
    }
    here = spot_of(tree, made.statement)
    reported = f"lambda x, y, y_pred, loss: (loss / {_count(tree, term, made, _REPORTED)}).item()"
    parts: set[Part] = {
        Keyword(spot_of(tree, made.call), "output_transform", reported),
        Insert(here, Where.AFTER, f"{name} = 0", 0),
        Insert(here, Where.AFTER, _COUNT.format(**words), 1),
        Insert(here, Where.AFTER, _DIVIDE.format(**words), 2),
        *_summed(tree, made),
    }
    said = "Sum the loss, and divide the window's gradients by its number of items before the optimizer steps"
    return Plan(
        frozenset(parts),
        Applicability.UNSAFE,
        f"{said}, assuming PyTorch 2.0 or later, and batches of inputs and targets",
        Helper.ALONE if site.ranks is None else Helper.RANKS,
        imports=() if tree.is_global("Events") else ("from ignite.engine import Events",),
    )


def _made(tree: Tree, site: Site) -> _Made:
    call = tree.expression(site.backward.spot)
    statement = tree.statement_of(call) if call is not None else None
    if not isinstance(call, ast.Call) or (spelled(call.func) or "").rpartition(".")[2] != IGNITE_TRAINER:
        raise DeclinedError("the trainer is put together by hand")
    match statement:
        case ast.Assign(targets=[target], value=value) if value is call and (trainer := spelled(target)) is not None:
            pass
        case _:
            raise DeclinedError("the trainer has no name")
    if any(isinstance(a, ast.Starred) for a in call.args) or len(call.args) > 5 or not tree.alone(statement):
        raise DeclinedError("the trainer's arguments are not in sight")
    given = dict(zip(("model", "optimizer", "loss_fn"), call.args, strict=False))
    given |= {k.arg: k.value for k in call.keywords if k.arg is not None}
    if len(given) < len(call.keywords) or _OTHERWISE & given.keys():
        raise DeclinedError("the trainer prepares batches, reports or scales in a way of its own")
    model, optimizer, steps = (spelled(given.get(n)) for n in ("model", "optimizer", IGNITE_STEPS))
    number = given.get(IGNITE_STEPS)
    if isinstance(number, ast.Constant):
        steps = ast.unparse(number)
    loss = given.get("loss_fn")
    if model is None or optimizer is None or steps is None or loss is None:
        raise DeclinedError("the trainer's arguments are not in sight")
    return _Made(statement, call, trainer, model, optimizer, loss, steps)


def _settings(tree: Tree, made: _Made) -> tuple[ast.Call, ast.stmt | None]:
    """What makes the criterion, and the statement that gives it the name by which the trainer gets it."""
    key = spelled(made.loss)
    if isinstance(made.loss, ast.Call):
        return made.loss, None
    scope = tree.class_of(made.call) if key is not None and key.startswith("self.") else tree.function_of(made.call)
    bound = tree.assignments(scope, key) if key is not None and scope is not None else []
    match bound:
        case [ast.Assign(targets=[_], value=ast.Call() as settings) as statement] if tree.alone(statement):
            return settings, statement
        case _:
            raise DeclinedError("the criterion is not made in sight")


def _count(tree: Tree, term: LossTerm, made: _Made, target: str) -> str:
    settings, _ = _settings(tree, made)
    code = f"criterion(y_pred, {target})"
    called = ast.parse(code, mode="eval").body
    assert isinstance(called, ast.Call)
    called.func = made.loss
    return items_of(tree, term, called, settings, ())


def _summed(tree: Tree, made: _Made) -> set[Part]:
    """Let the criterion sum; where others use it, too, a second one."""
    settings, statement = _settings(tree, made)
    if any(k.arg in {None, "reduction"} for k in settings.keywords):
        raise DeclinedError("how the criterion averages is said where it is made")
    if statement is None:
        return {Keyword(spot_of(tree, settings), "reduction", '"sum"')}
    key = spelled(made.loss)
    assert key is not None
    others = [n for n in tree.reads(tree.root, key) if n is not made.loss]
    if not others:
        return {Keyword(spot_of(tree, settings), "reduction", '"sum"')}
    prefix, _, last = key.rpartition(".")
    second = f"{prefix}.train_{last}" if prefix else f"train_{last}"
    if second in tree.taken(tree.root) or tree.reads(tree.root, second):
        raise DeclinedError(f"`{second}` is something else")
    twin = ast.Call(settings.func, settings.args, [*settings.keywords, ast.keyword("reduction", ast.Constant("sum"))])
    code = ast.unparse(twin).replace("'", '"')
    return {
        Insert(spot_of(tree, statement), Where.AFTER, f"{second} = {code}"),
        Replace(spot_of(tree, made.loss), second),
    }
