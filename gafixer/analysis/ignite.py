"""ignite: an `Engine` calls its process function for every batch, and handlers at its events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gafixer.analysis import calls
from gafixer.analysis.events import Branch, EventKind, Frame, Framework, Loop, LoopKind
from gafixer.analysis.spelling import peel, text
from gafixer.analysis.values import (
    OPAQUE,
    Bound,
    Called,
    Compare,
    Const,
    Element,
    External,
    Func,
    Item,
    Logic,
    Modulo,
    Sym,
    Value,
)
from gafixer.data.frameworks import IGNITE_STEP_FUNCTIONS, IGNITE_STEPS, IGNITE_TRAINER

if TYPE_CHECKING:
    from gafixer.analysis.interpreter import Interpreter
    from gafixer.analysis.spot import Spot

__all__ = ["before_steps", "create", "given", "handled", "registration"]

_PACKAGE = re.compile(r"^ignite\b")
_EVENT = re.compile(r"\.(\w+)(?:\(\))?$")


def create(run: Interpreter, path: str, args: list[Value], keywords: dict[str, Value], spot: Spot) -> Value | None:
    """A call of ignite that makes a trainer, or its step; None for any other function."""
    name = path.rpartition(".")[2]
    if not _PACKAGE.match(path):
        return None
    made = Called(External(path), tuple(args), tuple(keywords.items()), spot, run.loops)
    if name == "Engine" and args:
        _run(run, spot, args[0])
    elif name == IGNITE_TRAINER:
        _run(run, spot, made)
    elif not _trains(path):
        return None
    return made


def given(step: Value | None) -> Value | None:
    """The number of steps that a trainer, or its step, was made with; None where it was given none."""
    made = peel(step) if step is not None else None
    return dict(made.keywords).get(IGNITE_STEPS) if isinstance(made, Called) else None


def _run(run: Interpreter, spot: Spot, process: Value) -> None:
    """One batch: the process function inside loops over epochs and batches that nobody wrote."""
    epochs = Loop(run.fresh(), LoopKind.IMPLICIT, spot)
    batches = Loop(run.fresh(), LoopKind.IMPLICIT, spot, over=Sym("data"))
    run.engines[spot] = epochs, batches
    _within(run, (epochs, batches), process, [Sym("engine"), Element(Sym("data"), batches.id)], spot)


def _within(run: Interpreter, frames: tuple[Frame, ...], func: Value, args: list[Value], spot: Spot) -> None:
    kept = len(run.frames)
    run.frames += frames
    match peel(func):
        case Func() as process:
            run.run_function(process, args[: _places(process)], {})
        case Called(func=External(path=path)) as made if _trains(path):
            _supervised(run, made, spot)
        case _:
            pass
    del run.frames[kept:]


def _trains(path: str) -> bool:
    name = path.rpartition(".")[2]
    return name == IGNITE_TRAINER or IGNITE_STEP_FUNCTIONS.match(name) is not None


def _places(func: Func) -> int:
    return len(func.node.args.posonlyargs) + len(func.node.args.args) - (func.bound is not None)


def _supervised(run: Interpreter, made: Called, spot: Spot) -> None:
    """Ignite's own step: the loss of the model's output and the batch's target goes backward, divided by the steps."""
    named = dict(made.keywords)
    model, optimizer, loss = (
        named.get(name, made.args[place] if place < len(made.args) else OPAQUE)
        for place, name in enumerate(("model", "optimizer", "loss_fn"))
    )
    data = Element(Sym("data"), run.loops[-1])
    output = calls.call(run, model, [Item(data, Const(0))], {}, spot)
    value = calls.call(run, loss, [output, Item(data, Const(1))], {}, spot)
    run.emit(EventKind.BACKWARD, spot, value, made, Framework.IGNITE)
    run.emit(EventKind.STEP, spot, None, optimizer, Framework.IGNITE)
    run.emit(EventKind.CLEAR, spot, None, optimizer, Framework.IGNITE)


# -- handlers --------------------------------------------------------------------------------------------------------


def registration(
    run: Interpreter, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value], spot: Spot
) -> Value | None:
    """``trainer.on(event)`` and ``trainer.add_event_handler(event, handler)``; None for any other method."""
    if not args or name not in {"on", "add_event_handler"} or _engine(run, receiver) is None:
        return None
    if name == "on":
        return Called(Bound(receiver, "on"), tuple(args), tuple(keywords.items()), spot, run.loops)
    if len(args) > 1:
        _handle(run, receiver, args[0], args[1], spot)
    return Const(None)


def before_steps(run: Interpreter, hook: Value, spot: Spot) -> None:
    """``optimizer.register_step_pre_hook(hook)``, after the trainers were made: it runs before each of their steps."""
    for frames in list(run.engines.values()):
        _within(run, frames, hook, [Sym("optimizer"), OPAQUE, OPAQUE], spot)


def handled(run: Interpreter, decorator: Value, handler: Value, spot: Spot) -> bool:
    """Whether ``trainer.on(event)`` is called with its handler, which then runs."""
    match decorator:
        case Called(func=Bound(receiver=receiver, name="on"), args=(event, *_)) if _engine(run, receiver) is not None:
            _handle(run, receiver, event, handler, spot)
            return True
        case _:
            return False


def _engine(run: Interpreter, receiver: Value) -> tuple[Loop, Loop] | None:
    made = peel(receiver)
    return run.engines.get(made.spot) if isinstance(made, Called) else None


def _handle(run: Interpreter, receiver: Value, event: Value, handler: Value, spot: Spot) -> None:
    engine = _engine(run, receiver)
    assert engine is not None
    for part in event.parts if isinstance(event, Logic) else (event,):
        frames = _frames(engine, part, spot)
        if frames:
            _within(run, frames, handler, [Sym("engine")], spot)


def _frames(engine: tuple[Loop, Loop], event: Value, spot: Spot) -> tuple[Frame, ...]:
    """Where an event happens: in each iteration or every so many of them, or in each epoch."""
    epochs, batches = engine
    found = _EVENT.search(text(event))
    match found[1] if found is not None else "":
        case "ITERATION_COMPLETED" | "ITERATION_STARTED":
            every = dict(event.keywords).get("every") if isinstance(event, Called) else None
            if every is None:
                return epochs, batches
            test = Compare("==", Modulo(Sym("engine.state.iteration"), every, spot), Const(0))
            return epochs, batches, Branch(test, True, spot)
        case "EPOCH_COMPLETED":
            return (epochs,)
        case _:
            return ()
