"""Calls of what a project declares in its settings: its own losses, functions that step, functions that divide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis import algebra, training
from gafixer.analysis.events import EventKind
from gafixer.analysis.spelling import text
from gafixer.analysis.values import (
    Atom,
    Attr,
    Bound,
    ClassRef,
    Const,
    Detached,
    External,
    Func,
    Kind,
    LossModule,
    Reduction,
    Sym,
    Value,
)
from gafixer.declared import NOTHING, OwnLoss, Role

if TYPE_CHECKING:
    from gafixer.analysis.interpreter import Interpreter
    from gafixer.analysis.spot import Spot

__all__ = ["call"]

#: What a declared function divides by: the number of microbatches, whatever it is called there.
_STEPS = Sym("accumulation_steps")


def call(
    run: Interpreter, func: Value, args: list[Value], keywords: dict[str, Value], spot: Spot, receiver: Value | None
) -> Value | None:
    """The value of a call of something declared, which is then not followed; None for any other call."""
    if run.declared == NOTHING:
        return None
    if isinstance(func, LossModule):
        return None if func.own is None else _loss(func.own, func, args, keywords, spot, run)
    name = _dotted(func)
    if not name:
        return None
    if (own := run.declared.loss(name)) is not None:
        made = LossModule(own.name, Reduction(own.reduction.value), spot, _ignored(own), own=own)
        return made if _is_class(func) else _loss(own, made, args, keywords, spot, run, func)
    match run.declared.role(name):
        case Role.STEP:
            subjects = [v for v in (receiver, *args, *keywords.values()) if training.is_optimizer(v)]
            run.emit(EventKind.STEP, spot, None, next(iter(subjects), None))
            return Const(None)
        case Role.DIVIDE if args:
            return algebra.divide(args[0], _STEPS, spot)
        case _:
            return None


def _ignored(own: OwnLoss) -> Value | None:
    return None if own.ignored_label is None else Const(own.ignored_label)


def _dotted(func: Value) -> str:
    """The dotted name of what is called, with the module where that is known."""
    match func:
        case Func(module=path, node=node, owner=owner):
            inside = f"{owner.name}." if owner is not None else ""
            return f"{_module(path)}.{inside}{getattr(node, 'name', '')}"
        case ClassRef(module=path, name=name):
            return f"{_module(path)}.{name}"
        case External(path=path):
            return path
        case Bound() | Attr() | Sym():
            return text(func)
        case _:
            return ""


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".").strip(".")


def _is_class(func: Value) -> bool:
    """Whether a call makes a loss object, to be called later."""
    match func:
        case ClassRef():
            return True
        case External(path=path):
            return path.rpartition(".")[2][:1].isupper()
        case _:
            return False


def _loss(
    own: OwnLoss,
    module: LossModule,
    args: list[Value],
    keywords: dict[str, Value],
    spot: Spot,
    run: Interpreter,
    func: Value | None = None,
) -> Value:
    target = _target(own, args, keywords, func)
    atom = Atom(
        Kind.LOSS,
        own.name.rpartition(".")[2],
        module.reduction,
        spot,
        run.loops,
        target=target,
        ignore=module.ignore,
        made=module.spot,
        own=own,
    )
    return Detached(atom) if args and isinstance(args[0], Detached) and isinstance(target, Detached) else atom


def _target(own: OwnLoss, args: list[Value], keywords: dict[str, Value], func: Value | None) -> Value | None:
    """What was handed over as the targets."""
    if isinstance(own.target, int):
        return args[own.target] if own.target < len(args) else None
    if own.target in keywords:
        return keywords[own.target]
    if isinstance(func, Func):
        names = [a.arg for a in (*func.node.args.posonlyargs, *func.node.args.args)]
        given = dict(zip(names[1 if func.bound is not None else 0 :], args, strict=False))
        return given.get(own.target)
    return None
