"""Loops: the body runs once, and stands for every iteration."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from gafixer.analysis import algebra
from gafixer.analysis.events import Loop, LoopKind
from gafixer.analysis.spelling import bounded, text
from gafixer.analysis.values import (
    OPAQUE,
    Called,
    Compare,
    Const,
    Element,
    Index,
    Instance,
    Listing,
    Mapping,
    Modulo,
    Sequence,
    Sym,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.interpreter import Interpreter
    from gafixer.analysis.spot import Spot
    from gafixer.analysis.values import Loops

__all__ = ["append", "brings_counts", "carried_over", "comprehension", "run_for", "run_while"]

#: Wrappers that give what they are given, one by one.
_THROUGH = frozenset(
    {"tqdm", "trange", "track", "rich_tqdm", "progress", "iter", "list", "tuple", "reversed", "sorted", "cycle"}
    | {"log_every", "prefetch"}
)


def run_for(run: Interpreter, node: ast.For | ast.AsyncFor) -> None:
    """Run a ``for`` loop."""
    over = run.evaluate(node.iter)
    loop, element = _open(run, over, run.spot(node))
    counters = list(_counted(node.body))
    _enter(run, loop, counters)
    run.assign(node.target, element)
    run.block(node.body)
    run.frames.pop()
    run.block(node.orelse)


def run_while(run: Interpreter, node: ast.While) -> None:
    """Run a ``while`` loop; ``while n < N`` with n counted from 0 runs N times."""
    counters = list(_counted(node.body))
    loop = Loop(run.fresh(), LoopKind.WHILE, run.spot(node))
    before = {key: _read(run, key) for key in counters}
    test = run.evaluate(node.test)
    loop = dataclasses.replace(loop, trips=_while_trips(test, before), over=test)
    _enter(run, loop, counters)
    run.evaluate(node.test)
    run.block(node.body)
    run.frames.pop()
    run.block(node.orelse)


def _while_trips(test: Value, before: dict[str, Value]) -> Value | None:
    match test:
        case Compare(op="<" | "!=", left=left, right=right) if left in before.values():
            return right if algebra.number(left) == 0 or isinstance(left, Sym) else None
        case _:
            return None


def _enter(run: Interpreter, loop: Loop, counters: list[str]) -> None:
    """Counters become the loop's index; other names keep what they were before the loop."""
    indices = {key: _index(run, key, loop) for key in counters}
    run.frames.append(loop)
    for key, index in indices.items():
        _write(run, key, index)


def _index(run: Interpreter, key: str, loop: Loop) -> Index:
    before = _read(run, key)
    around = _assigned(run, key)
    here = run.loops
    match before:
        case Const(value=int() as start):
            return Index(loop.id, start, restarts=around == here and "." not in key)
        case Index(offset=offset):
            return Index(loop.id, offset, restarts=False)
        case Sym(default=Const(value=int() as start)):
            return Index(loop.id, start, restarts=False)
        case Modulo(left=Index(offset=offset)):
            return Index(loop.id, offset, restarts=False)
        case _:
            return Index(loop.id, None, restarts=False)


def _read(run: Interpreter, key: str) -> Value:
    name, _, attr = key.partition(".")
    if not attr:
        return run.scope.env.get(name) or run.scope.outer.get(name) or Sym(name)
    base = run.scope.env.get(name)
    return run.heap.get((base.id, attr), OPAQUE) if isinstance(base, Instance) else OPAQUE


def _assigned(run: Interpreter, key: str) -> Loops | None:
    name, _, attr = key.partition(".")
    if not attr:
        return run.scope.assigned.get(name)
    base = run.scope.env.get(name)
    return run.heap_assigned.get((base.id, attr)) if isinstance(base, Instance) else None


def _write(run: Interpreter, key: str, value: Value) -> None:
    name, _, attr = key.partition(".")
    if not attr:
        run.scope.env[name] = value
        return
    base = run.scope.env.get(name)
    if isinstance(base, Instance):
        run.heap[base.id, attr] = value


def _counted(body: list[ast.stmt]) -> Iterator[str]:
    """Names and attributes that a loop's body counts up by one: ``n += 1``, ``n = n + 1``, ``n = (n + 1) % k``."""
    seen = set()
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                continue
            case ast.AugAssign(target=target, op=ast.Add(), value=ast.Constant(value=1)):
                key = _key(target)
            case ast.Assign(targets=[target], value=value) if _key(target) and _counts(value, _key(target)):
                key = _key(target)
            case _:
                key = None
        if key is not None and key not in seen:
            seen.add(key)
            yield key
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            stack += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]


def _counts(value: ast.expr, key: str | None) -> bool:
    match value:
        case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=1)):
            return _key(left) == key
        case ast.BinOp(left=inner, op=ast.Mod()):
            return _counts(inner, key)
        case _:
            return False


def _key(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=base), attr=attr):
            return f"{base}.{attr}"
        case _:
            return None


# -- what a loop draws from ------------------------------------------------------------------------------------------


def _open(run: Interpreter, over: Value, spot: Spot) -> tuple[Loop, Value]:
    """The frame of a ``for`` loop and what its target is bound to."""
    made = run.fresh()
    over = _unwrapped(over)
    kind, source, trips, start = _source(over)
    loop = Loop(made, kind, spot, source, trips)
    index = Index(made, start)
    match over:
        case Called(func=func, args=args) if text(func) == "enumerate":
            return loop, Sequence((index, _element(source, made)))
        case Called(func=func, args=args) if text(func) == "zip":
            return loop, Sequence(tuple(_element(a, made) for a in args))
        case Called(func=func) if _last(func) == "items" and isinstance(source, Mapping):
            return loop, Sequence((OPAQUE, _element(source, made)))
        case _ if kind is LoopKind.RANGE:
            return loop, index
        case _:
            return loop, _element(source, made)


def _unwrapped(over: Value) -> Value:
    """What a progress bar and its like are put around: they give the same elements."""
    while isinstance(over, Called) and over.args and _gives_through(_last(over.func)):
        over = over.args[0]
    return over


def _gives_through(name: str) -> bool:
    return name != "trange" and (name in _THROUGH or name.lower().endswith("tqdm"))


def _source(over: Value) -> tuple[LoopKind, Value, Value | None, int | None]:
    """Kind, what is drawn from, how many times (where that is a value of its own), first index."""
    match over:
        case Called(func=func, args=args, keywords=keywords):
            name = _last(func)
            if name in {"range", "trange"}:
                return _range(over, args)
            if name == "enumerate" and args:
                kind, source, trips, _ = _source(args[0])
                first = args[1] if len(args) > 1 else dict(keywords).get("start", Const(0))
                begin = algebra.number(first)
                return kind, source, trips, None if begin is None else int(begin)
            if name == "islice" and len(args) > 1:
                return LoopKind.RANGE, _source(args[0])[1], args[1] if len(args) == 2 else None, 0
            if name == "zip" and args:
                sources = [_source(a) for a in args]
                return LoopKind.FOR, sources[0][1], next((s[2] for s in sources if s[2] is not None), None), 0
            if _gives_through(name):
                return _source(args[0]) if args else (LoopKind.FOR, over, None, 0)
            if name in {"chunk", "tensor_split"} and args:
                return LoopKind.FOR, over, args[-1], 0
        case Listing(length=length) if length is not None:
            return LoopKind.FOR, over, length, 0
        case Sequence(items=items):
            return LoopKind.FOR, over, Const(len(items)), 0
        case _:
            pass
    return LoopKind.FOR, over, None, 0


def _range(over: Value, args: tuple[Value, ...]) -> tuple[LoopKind, Value, Value | None, int | None]:
    match args:
        case (stop,):
            return LoopKind.RANGE, over, stop, 0
        case (first, stop):
            start = algebra.number(first)
            trips = stop if start == 0 else None
            if start == 1 and isinstance(whole := algebra.add(stop, Const(-1)), Sym):
                trips = whole
            return LoopKind.RANGE, over, trips, None if start is None else int(start)
        case _:
            return LoopKind.RANGE, over, None, None


def _last(func: Value) -> str:
    return text(func).rsplit(".", 1)[-1]


def _element(source: Value, loop: int) -> Value:
    match source:
        case _ if brings_counts(source):
            return Sequence((Element(source, loop), Sym("num_items")))
        case Listing(element=element):
            return element
        case Sequence(items=items) if items:
            return algebra.choose(items)
        case Mapping():
            return OPAQUE
        case Called(func=func, args=args) if _last(func) in {"zip"}:
            return Sequence(tuple(_element(a, loop) for a in args))
        case _:
            return Element(source, loop)


#: Loaders of `gafixer.accumulate`, and of rewritten files in a private form.
_COUNTED = frozenset({"WithNumItems", "CountedWindows"})


def brings_counts(source: Value) -> bool:
    """Whether a loader yields each batch with its window's count: that of `gafixer.accumulate`, or its private form."""
    match source:
        case Instance(cls=cls):
            return cls.name.lstrip("_") in _COUNTED
        case Called(func=func):
            return _last(func) in _COUNTED
        case _:
            return False


# -- lists and sums that a loop fills --------------------------------------------------------------------------------


def carried_over(run: Interpreter, target: ast.expr) -> int | None:
    """The loop over which ``target += x`` sums up: the outermost one inside which the target was not begun."""
    key = _key(target)
    around = None if key is None else _assigned(run, key)
    if around is None:
        return run.loops[-1] if run.loops and key is not None else None
    here = run.loops
    shared = 0
    while shared < min(len(around), len(here)) and around[shared] == here[shared]:
        shared += 1
    return here[shared] if shared < len(here) else None


def append(run: Interpreter, target: ast.Name, item: Value) -> None:
    """``target.append(item)``."""
    known = run.scope.env.get(target.id)
    loop = carried_over(run, target)
    item = bounded(item)
    match known:
        case Sequence(items=items) if loop is None:
            run.scope.env[target.id] = Sequence((*items, item))
        case Sequence(items=items):
            length = _length(run, loop)
            run.scope.env[target.id] = Listing(algebra.choose((*items, item)), loop, length)
        case Listing(element=element):
            run.scope.env[target.id] = dataclasses.replace(known, element=algebra.choose((element, item)))
        case _:
            pass


def _length(run: Interpreter, loop: int | None) -> Value | None:
    for frame in run.frames:
        if isinstance(frame, Loop) and frame.id == loop:
            return frame.trips if frame.trips is not None else _len(frame)
    return None


def _len(frame: Loop) -> Value:
    return Called(Sym("len"), (frame.over or OPAQUE,), (), frame.spot)


def comprehension(run: Interpreter, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Value:
    """A list of one element per iteration."""
    opened = 0
    for generator in node.generators:
        loop, element = _open(run, run.evaluate(generator.iter), run.spot(node))
        run.frames.append(loop)
        opened += 1
        run.assign(generator.target, element)
        for condition in generator.ifs:
            run.evaluate(condition)
    value = run.evaluate(node.elt)
    frames = run.frames[len(run.frames) - opened :]
    first = frames[0]
    assert isinstance(first, Loop)
    del run.frames[len(run.frames) - opened :]
    length = None if node.generators[0].ifs else first.trips or _len(first)
    return Listing(value, first.id, length)
