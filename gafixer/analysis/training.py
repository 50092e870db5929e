"""Calls that train: backward, step, clearing, clipping, schedules. Known by what they are called on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gafixer.analysis import algebra, composer, ignite, reductions
from gafixer.analysis.events import Branch, EventKind, Framework
from gafixer.analysis.spelling import text
from gafixer.analysis.spot import Spot
from gafixer.analysis.values import (
    OPAQUE,
    Atom,
    Attr,
    Called,
    Choice,
    ClassRef,
    Const,
    Detached,
    Element,
    External,
    Func,
    Instance,
    Item,
    Listing,
    Mapping,
    Opaque,
    Poly,
    Sequence,
    Sym,
    Value,
)
from gafixer.data import frameworks as known

if TYPE_CHECKING:
    from gafixer.analysis.interpreter import Interpreter

__all__ = ["NOWHERE", "function", "is_optimizer", "method", "report", "rescale", "rescaled", "unknown_call"]

NOWHERE = Spot("", 0, 0, 0, 0)


def described(value: Value | None) -> str:
    """What a value is called, and what made it: both say what it is."""
    match value:
        case Sym(key=key, origin=origin) if origin is not None:
            return f"{key} {text(origin)}"
        case Instance(cls=ClassRef(name=name)):
            return name
        case None:
            return ""
        case _:
            return text(value)


def _last(value: Value | None) -> str:
    """The last word of a dotted name and what made it: ``self.trainer.optimizer`` is an optimizer, no trainer."""
    name = described(value)
    return " ".join(part.rsplit(".", 1)[-1] for part in name.replace("()", "").split())


def is_optimizer(value: Value | None) -> bool:
    """Whether a value is an optimizer, by its name or by what made it."""
    name = _last(value)
    return bool(known.OPTIMIZER.search(name) or "torch.optim." in described(value)) and not _is_scheduler(value)


def _is_scheduler(value: Value | None) -> bool:
    return bool(known.SCHEDULER.search(_last(value)) or "lr_scheduler" in described(value))


def framework(value: Value | None) -> Framework:
    """Through what ``value.backward(loss)`` goes."""
    name = described(value)
    if known.ACCELERATOR.search(name):
        return Framework.ACCELERATE
    if known.FABRIC.search(name):
        return Framework.FABRIC
    if is_optimizer(value) or known.SCALER.search(_last(value)):
        return Framework.TORCH
    return Framework.DEEPSPEED if known.ENGINE.search(_last(value)) else Framework.TORCH


def _is_tensor_like(value: Value) -> bool:
    return isinstance(value, Choice | Poly | Atom | Called | Item | Sym | Attr | Element | Opaque | Sequence)


def method(
    run: Interpreter, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value], spot: Spot
) -> Value | None:
    """``receiver.name(...)`` where that trains; None where it doesn't."""
    match name:
        case "backward":
            return _backward(run, receiver, args, keywords, spot)
        case "manual_backward" if args:
            run.emit(EventKind.BACKWARD, spot, args[0], receiver, Framework.LIGHTNING)
            return Const(None)
        case "step":
            return _step(run, receiver, args, keywords, spot)
        case "optimizer_step" if args:
            run.emit(EventKind.STEP, spot, None, args[0])
            return Const(None)
        case "zero_grad" | "zero_grad_" | "zero_grad_buffer":
            run.emit(EventKind.CLEAR, spot, None, receiver)
            return Const(None)
        case "register_step_pre_hook" if args:
            ignite.before_steps(run, args[0], spot)
            return OPAQUE
        case "unscale_":
            run.emit(EventKind.UNSCALE, spot, None, receiver)
            return Const(None)
        case "scale" if args and known.SCALER.search(_last(receiver)):
            return args[0]
        case "scale_loss" if args:
            return args[0]
        case "prepare" if known.ACCELERATOR.search(described(receiver)):
            return args[0] if len(args) == 1 else Sequence(tuple(args))
        case "setup" | "setup_module" | "setup_dataloaders" | "setup_optimizers" if known.FABRIC.search(
            described(receiver)
        ):
            return args[0] if len(args) == 1 else Sequence(tuple(args))
        case _ if name in known.CLIPS:
            _clip(run, receiver, args, keywords, spot)
            return OPAQUE
        case _ if args and (scales := known.SCALES_GRADIENTS.match(name)) is not None:
            divides = scales["by"].startswith(("div", "normal"))
            rescale(run, algebra.divide(Const(1), args[0], spot) if divides else args[0], spot)
            return Const(None)
        case _ if known.SUMS_OVER_RANKS.search(name) and args and not isinstance(receiver, Instance):
            return reductions.everywhere(args[0])
        case _:
            return ignite.registration(run, receiver, name, args, keywords, spot)


def _backward(
    run: Interpreter, receiver: Value, args: list[Value], keywords: dict[str, Value], spot: Spot
) -> Value | None:
    given = args[0] if args else keywords.get("loss")
    named_loss = re.search(r"loss|err\b|objective", text(receiver), re.IGNORECASE) is not None
    if given is None or isinstance(receiver, Poly | Atom) or (named_loss and not known.SCALER.search(_last(receiver))):
        if not _is_tensor_like(receiver):
            return None
        run.emit(EventKind.BACKWARD, spot, _weighed(receiver, keywords.get("gradient", given), spot))
        return Const(None)
    if isinstance(receiver, External) and receiver.path.endswith("autograd"):
        run.emit(EventKind.BACKWARD, spot, given, None, Framework.TORCH)
        return Const(None)
    undivided = keywords.get("scale_wrt_gas") == Const(False)
    run.emit(EventKind.BACKWARD, spot, given, receiver, framework(receiver), undivided=undivided)
    return Const(None)


def _clip(run: Interpreter, subject: Value | None, args: list[Value], keywords: dict[str, Value], spot: Spot) -> None:
    """Gradients are clipped, unless the threshold is infinite: then their norm is only measured."""
    threshold = text(keywords.get("max_norm", args[1] if len(args) > 1 else None)).strip("'\"")
    if threshold.rpartition(".")[2] not in {"inf", "Infinity"}:
        run.emit(EventKind.CLIP, spot, None, subject)


def _weighed(value: Value, gradient: Value | None, spot: Spot) -> Value:
    """``loss.backward(gradient)``: the gradient of ``loss * gradient``, where it is a number times ones."""
    whole = None if gradient is None else algebra.poly(gradient)
    if gradient is None or whole is None:
        return value
    ones = [
        factor.value
        for term in whole.terms
        for factor in term.factors
        if isinstance(factor.value, Called) and re.search(r"\bones(_like)?$", text(factor.value.func))
    ]
    for one in ones:
        gradient = algebra.divide(gradient, one, spot)
    return algebra.multiply(value, gradient, spot) if ones else value


def _step(run: Interpreter, receiver: Value, args: list[Value], keywords: dict[str, Value], spot: Spot) -> Value | None:
    last = _last(receiver)
    if _is_scheduler(receiver):
        run.emit(EventKind.SCHEDULE, spot, next(iter((*args, *keywords.values())), None), receiver)
    elif known.SCALER.search(last) and args:
        run.emit(EventKind.STEP, spot, receiver, args[0])
    elif is_optimizer(receiver):
        for closure in args:
            if isinstance(closure, Func):
                run.run_function(closure, (), {})
        run.emit(EventKind.STEP, spot, None, receiver)
    elif framework(receiver) is Framework.DEEPSPEED and not args:
        run.emit(EventKind.STEP, spot, None, receiver, Framework.DEEPSPEED)
    else:
        return None
    return Const(None)


def function(run: Interpreter, path: str, args: list[Value], keywords: dict[str, Value], spot: Spot) -> Value | None:
    """A library function that trains; None for any other."""
    name = path.rpartition(".")[2]
    if name in known.CLIPS:
        _clip(run, args[0] if args else None, args, keywords, spot)
        return OPAQUE
    if name == "optimizer_step" and args:  # torch_xla
        run.emit(EventKind.STEP, spot, None, args[0])
        return Const(None)
    if name == "backward" and path.startswith("torch.autograd") and args:
        run.emit(EventKind.BACKWARD, spot, args[0])
        return Const(None)
    if name in {"_foreach_div_", "_foreach_mul_"} and len(args) > 1 and "grad" in text(_element(args[0])):
        rescale(run, algebra.divide(Const(1), args[1], spot) if "div" in name else args[1], spot)
        return Const(None)
    if path.startswith("gafixer.accumulate.divide_gradients") and len(args) > 1:
        count = args[-1] if name == "divide_gradients" else reductions.everywhere(args[-1])
        factor = algebra.divide(Const(1), count, spot)
        if name == "divide_gradients_accelerated":
            factor = algebra.multiply(factor, Attr(args[0], "gradient_accumulation_steps"), spot)
        rescale(run, factor, spot)
        return Const(None)
    if name == "initialize" and "deepspeed" in path:
        return Sequence((Sym("model_engine"), Sym("optimizer"), Sym("dataloader"), Sym("lr_scheduler")))
    if name in {"all_reduce", "reduce"} and path.startswith("torch.distributed"):
        _sum_in_place(run, args)
        return Const(None)
    if composer.train(run, path, args, keywords, spot):
        return OPAQUE
    return ignite.create(run, path, args, keywords, spot)


def _element(value: Value) -> Value:
    return value.element if isinstance(value, Listing) else value


def _sum_in_place(run: Interpreter, args: list[Value]) -> None:
    """``dist.all_reduce(count)``: whatever holds this value now holds the sum over ranks."""
    if not args or isinstance(args[0], Opaque | Const):
        return
    env = run.scope.env
    for name, value in list(env.items()):
        if value == args[0]:
            env[name] = reductions.everywhere(value)


def unknown_call(
    run: Interpreter, func: Value, args: list[Value], keywords: dict[str, Value], spot: Spot
) -> Value | None:
    """A call of something unknown: a scaler object that goes backward and steps for its caller, a clip function."""
    if args and ignite.handled(run, func, args[0], spot):
        return args[0]
    name = _last(func)
    if name in known.CLIPS:
        _clip(run, args[0] if args else None, args, keywords, spot)
        return OPAQUE
    steps_for = keywords.get("optimizer", args[1] if len(args) > 1 else None)
    if args and known.SCALER.search(name) and is_optimizer(steps_for):
        run.emit(EventKind.BACKWARD, spot, args[0])
        guard = keywords.get("update_grad", keywords.get("need_update"))
        frames = run.frames
        if guard is not None:
            run.frames = [*frames, Branch(guard, True, spot)]
        run.emit(EventKind.STEP, spot, None, steps_for)
        run.frames = frames
        return OPAQUE
    return None


def rescaled(run: Interpreter, base: Value, name: str, factor: Value, spot: Spot) -> None:
    """``p.grad.div_(n)``, ``p.grad.data.mul_(x)``."""
    if name.endswith("_") and isinstance(base, Attr) and base.name == "grad":
        rescale(run, factor, spot)


def rescale(run: Interpreter, factor: Value, spot: Spot) -> None:
    """Gradients were multiplied by `factor`."""
    run.emit(EventKind.RESCALE, spot, factor)


def report(run: Interpreter, value: Value, spot: Spot) -> None:
    """A figure cut from the graph was handed to somebody: printed, logged, kept."""
    match value:
        case Detached(of=Poly() | Atom() as of):
            run.emit(EventKind.LOG, spot, of)
        case Mapping(entries=entries):
            for _, entry in entries[:8]:
                report(run, entry, spot)
        case _:
            pass
