"""Calls of libraries that the algebra knows: PyTorch's losses and reductions, and Python's own functions."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from gafixer.analysis import algebra, reductions, training
from gafixer.analysis.spelling import depth, text
from gafixer.analysis.values import (
    OPAQUE,
    Atom,
    Bound,
    Called,
    Choice,
    Const,
    Detached,
    External,
    Func,
    Kind,
    Listing,
    LossModule,
    Mapping,
    Poly,
    Reduction,
    Sequence,
    Sym,
    Value,
)
from gafixer.data.frameworks import SAME_ITEMS, SUMS_OVER_RANKS, WRAPPERS
from gafixer.data.losses import FUNCTIONS, MODULES, LossSpec

if TYPE_CHECKING:
    from collections.abc import Sequence as Many

    from gafixer.analysis.interpreter import Interpreter
    from gafixer.analysis.spot import Spot

__all__ = ["BUILTINS", "builtin", "function", "loss", "method", "unknown"]

BUILTINS = frozenset(
    {"sum", "len", "int", "float", "max", "min", "abs", "round", "list", "tuple", "dict", "getattr", "next", "iter"}
)

_REDUCTIONS = {
    "mean": Reduction.MEAN,
    "sum": Reduction.SUM,
    "none": Reduction.NONE,
    "batchmean": Reduction.MEAN,
    "elementwise_mean": Reduction.MEAN,
}


def _reduction(spec: LossSpec, keywords: dict[str, Value]) -> Reduction:
    """What ``reduction=`` (or the old ``size_average`` and ``reduce``) asks for."""
    match keywords.get("reduction"), keywords.get("size_average"), keywords.get("reduce"):
        case Const(value=str() as word), _, _:
            return _REDUCTIONS.get(word, Reduction.UNKNOWN)
        case None, _, Const(value=False):
            return Reduction.NONE
        case None, Const(value=False), _:
            return Reduction.SUM
        case None, _, _:
            return _REDUCTIONS[spec.reduction]
        case Sym(default=Const(value=str() as word)), _, _:
            return _REDUCTIONS.get(word, Reduction.UNKNOWN)
        case _:
            return Reduction.UNKNOWN


def _weighted(spec: LossSpec, weight: Value | None) -> bool:
    return spec.weighted and weight is not None and weight != Const(None)


def _loss_spec(path: str, table: dict[str, LossSpec]) -> LossSpec | None:
    root, _, name = path.rpartition(".")
    known = root.startswith(("torch", "nn", "F", "functional")) or root in {"", "F"}
    return table.get(name) if known else None


def loss(run: Interpreter, module: LossModule, args: list[Value], keywords: dict[str, Value], spot: Spot) -> Value:
    """A call of a loss object."""
    spec = MODULES.get(module.name) or FUNCTIONS[module.name]
    return _atom(run, spec, module, args, keywords, spot)


def _atom(
    run: Interpreter, spec: LossSpec, module: LossModule, args: list[Value], keywords: dict[str, Value], spot: Spot
) -> Value:
    target = keywords.get("target", keywords.get("targets"))
    if target is None and len(args) > spec.target:
        target = args[spec.target]
    atom = Atom(
        Kind.LOSS,
        spec.name,
        module.reduction,
        spot,
        run.loops,
        of=args[0] if args and depth(args[0]) < 6 else None,
        target=target,
        ignore=module.ignore,
        weighted=module.weighted,
        made=module.spot,
    )
    return Detached(atom) if args and isinstance(args[0], Detached) and isinstance(target, Detached) else atom


def function(run: Interpreter, path: str, args: list[Value], keywords: dict[str, Value], spot: Spot) -> Value:
    """A call of a library's function or class."""
    done = training.function(run, path, args, keywords, spot)
    if done is not None:
        return done
    name = path.rpartition(".")[2]
    if (spec := _loss_spec(path, MODULES)) is not None:
        ignore = keywords.get("ignore_index") if spec.ignores else None
        weight = keywords.get("weight", args[0] if args else None)
        return LossModule(name, _reduction(spec, keywords), spot, ignore, _weighted(spec, weight))
    if (spec := _loss_spec(path, FUNCTIONS)) is not None:
        ignore = keywords.get("ignore_index") if spec.ignores else None
        made = LossModule(spec.name, _reduction(spec, keywords), spot, ignore, _weighted(spec, keywords.get("weight")))
        return _atom(run, spec, made, args, keywords, spot)
    if name in WRAPPERS and args:
        return args[0]
    if path == "functools.partial" and args:
        return _partial(run, args, keywords, spot)
    if path.startswith(("torch.", "einops.", "numpy.")) and args:
        return _torch(run, name, args, keywords, spot)
    if SUMS_OVER_RANKS.search(name) and args:
        return reductions.everywhere(args[0])
    return unknown(run, External(path), args, keywords, spot)


def unknown(run: Interpreter, func: Value, args: Many[Value], keywords: dict[str, Value], spot: Spot) -> Value:
    """The result of a call that is not followed: it remembers its call."""
    if depth(func) > 7 or func == OPAQUE:
        return Called(OPAQUE, (), (), spot, run.loops)
    return Called(func, tuple(map(_short, args)), tuple((k, _short(v)) for k, v in keywords.items()), spot, run.loops)


def _short(value: Value) -> Value:
    return OPAQUE if depth(value) > 5 or isinstance(value, Func) else value


def _partial(run: Interpreter, args: list[Value], keywords: dict[str, Value], spot: Spot) -> Value:
    match args[0]:
        case Func() as func:
            taken = func.node.args
            names = [a.arg for a in (*taken.posonlyargs, *taken.args)]
            given = tuple(zip(names, args[1:], strict=False))
            return dataclasses.replace(func, preset=(*func.preset, *given, *keywords.items()))
        case External(path=path) if (spec := _loss_spec(path, FUNCTIONS)) is not None:
            return LossModule(
                spec.name,
                _reduction(spec, keywords),
                spot,
                keywords.get("ignore_index"),
                _weighted(spec, keywords.get("weight")),
            )
        case _:
            return unknown(run, External("functools.partial"), args, keywords, spot)


def _torch(run: Interpreter, name: str, args: list[Value], keywords: dict[str, Value], spot: Spot) -> Value:
    """``torch.name(x, ...)``: the method of the same name on its first argument, with a few of its own."""
    first = args[0]
    match name:
        case "div" | "true_divide" if len(args) > 1:
            return algebra.divide(first, args[1], spot)
        case "mul" | "multiply" if len(args) > 1:
            return algebra.multiply(first, args[1], spot)
        case "add" if len(args) > 1:
            return algebra.add(first, args[1])
        case "sub" if len(args) > 1:
            return algebra.add(first, algebra.negate(args[1]))
        case "stack" | "cat" | "concat":
            return first
        case "where" if len(args) == 3:
            return algebra.multiply(args[1], args[0], spot)
        case "masked_select" if len(args) > 1:
            return reductions.select(first, args[1])
        case "from_numpy" | "as_tensor" | "tensor":
            return first
        case "compile":
            return first
        case _:
            return method(run, first, name, args[1:], keywords, spot, External(f"torch.{name}"))


def method(
    run: Interpreter,
    base: Value,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    spot: Spot,
    func: Value | None = None,
) -> Value:
    """``base.name(...)`` on something that is not an object of the project."""
    if isinstance(base, Choice):
        return algebra.choose(method(run, option, name, args, keywords, spot, func) for option in base.options)
    if isinstance(base, Mapping | Sequence | Listing) and (found := _container(base, name, args)) is not None:
        return found
    match name:
        case "item" | "detach" | "detach_" | "tolist" | "numpy":
            return base if isinstance(base, Detached) else Detached(base)
        case "mean" | "sum" | "nanmean" | "nansum":
            return _reduced(run, base, name, args, keywords, spot)
        case "div" | "div_" | "true_divide" | "divide" | "mul" | "mul_" | "multiply" if args:
            if "div" in name:
                training.rescaled(run, base, name, algebra.divide(Const(1), args[0], spot), spot)
                return algebra.divide(base, args[0], spot)
            training.rescaled(run, base, name, args[0], spot)
            return algebra.multiply(base, args[0], spot)
        case "add" | "add_" if args:
            return algebra.add(base, args[0])
        case "sub" | "sub_" if args:
            return algebra.add(base, algebra.negate(args[0]))
        case "neg":
            return algebra.negate(base)
        case "masked_select" if args:
            return reductions.select(base, args[0])
        case "masked_fill" | "masked_fill_" if args:
            return algebra.multiply(base, args[0], spot)
        case _ if name in SAME_ITEMS and algebra.poly(base) is not None:
            return base
        case _ if SUMS_OVER_RANKS.search(name) and args:
            return reductions.everywhere(args[0])
        case _ if depth(base) > 7:
            return OPAQUE
        case _:
            given = args if func is None else [base, *args]
            return unknown(run, func if func is not None else Bound(base, name), given, keywords, spot)


def _reduced(
    run: Interpreter, base: Value, name: str, args: list[Value], keywords: dict[str, Value], spot: Spot
) -> Value:
    how = Reduction.MEAN if "mean" in name else Reduction.SUM
    dims = args[0] if args else keywords.get("dim", keywords.get("axis"))
    whole = dims is None or dims == Const(None) or (isinstance(dims, Sequence) and Const(0) in dims.items)
    if whole:
        return reductions.reduce(base, how, spot, run.loops)
    return reductions.reduce_rows(base, spot, run.loops)


def _container(base: Mapping | Sequence | Listing, name: str, args: list[Value]) -> Value | None:
    match base, name:
        case Mapping(entries=entries), "values" if entries:
            return Sequence(tuple(value for _, value in entries))
        case Mapping(), "get" if args and isinstance(args[0], Const):
            return base.get(args[0].value) or (args[1] if len(args) > 1 else OPAQUE)
        case Mapping(entries=entries), "get" if args and entries:
            return algebra.choose([*(value for _, value in entries), *args[1:]])
        case Mapping(), "items":
            return Called(Bound(base, "items"), (base,), (), training.NOWHERE)
        case Mapping(), "pop" if args and isinstance(args[0], Const):
            return base.get(args[0].value)
        case _:
            return None


def builtin(run: Interpreter, name: str, args: list[Value], keywords: dict[str, Value], spot: Spot) -> Value:
    """A call of one of Python's own functions."""
    match name, args:
        case "sum", [first, *_]:
            return _sum(run, first, spot)
        case "len", [Sequence(items=items)]:
            return Const(len(items))
        case "len", [Listing(length=length)] if length is not None:
            return length
        case (("float" | "int" | "round"), [first, *_]):
            whole = algebra.poly(first)
            is_loss = whole is not None and any(
                t.atom is not None and t.atom.kind is not Kind.REDUCED for t in whole.terms
            )
            return Detached(first) if is_loss and not isinstance(first, Detached) else first
        case (("max" | "min"), [first, second]):
            return second if isinstance(first, Const) else first
        case (("abs" | "list" | "tuple"), [first]):
            return first
        case "getattr", [first, Const(value=str() as attr), *_]:
            return run.attribute(first, attr)
        case "dict", [] if keywords:
            return Mapping(tuple(keywords.items()))
        case "next", [Listing(element=element), *_]:
            return element
        case _:
            return unknown(run, Sym(name), args, keywords, spot)


def _sum(run: Interpreter, value: Value, spot: Spot) -> Value:
    match value:
        case Sequence(items=items) if items:
            total: Value = Const(0)
            for item in items:
                total = algebra.add(total, item)
            return total
        case Listing(element=element):
            return reductions.sum_up(value, spot, run.loops) if algebra.poly(element) is not None else OPAQUE
        case Poly() | Atom():
            return reductions.reduce(value, Reduction.SUM, spot, run.loops)
        case _ if text(value).endswith(("values()", ".losses")):
            return value
        case _:
            return reductions.reduce(value, Reduction.SUM, spot, run.loops)
