"""Calls: into the project, where they are followed, and into libraries, where they are known or not."""

from __future__ import annotations

import ast
import dataclasses
import re
from typing import TYPE_CHECKING

from gafixer.analysis import algebra, decorators, library, own, training
from gafixer.analysis.events import Call
from gafixer.analysis.names import spelled
from gafixer.analysis.spelling import bounded, text
from gafixer.analysis.values import (
    Attr,
    Bound,
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
    LossModule,
    Mapping,
    Opaque,
    Sequence,
    Sym,
    Value,
)
from gafixer.data.frameworks import FRAMEWORK_CLASSES

if TYPE_CHECKING:
    from collections.abc import Sequence as Many

    from gafixer.analysis.interpreter import Interpreter
    from gafixer.analysis.names import Assigned
    from gafixer.analysis.spot import Spot

__all__ = [
    "bound_method",
    "evaluate",
    "evaluate_elsewhere",
    "follow",
    "instance",
]

#: A function that mentions none of these neither trains nor makes a loss, a count or an object that does.
_RELEVANT = re.compile(
    r"loss|backward|\.step\(|zero_grad|clip_grad|\.grad\b|criterion|cross_entropy|nll|\.mean\(|\.sum\(|\bsum\(|scaler"
    r"|all_reduce|gather\(|Accelerator\(|Fabric\(|optim\.|accum|yield|train|ignore_index|-100|super\(\)\."
)
_OWN_CALL = re.compile(r"\bself\.(\w+)\(")
#: Class methods that make an object: of a project class that inherits them, it is one of that class.
_MAKES = re.compile(r"from_|_from_|load_from")
#: A function longer than this is followed only if it trains.
_LONG = 220


def evaluate(run: Interpreter, node: ast.Call) -> Value:
    """The value of a call; what it does to gradients becomes events."""
    spot = run.spot(node)
    receiver: Value | None = None
    if isinstance(node.func, ast.Attribute):
        if _is_super(node.func.value):
            return _super(run, node, spot)
        receiver = run.evaluate(node.func.value)
        func = run.attribute(receiver, node.func.attr)
    else:
        func = run.evaluate(node.func)
    args = _arguments(run, node.args)
    keywords = _keywords(run, node.keywords)
    if not isinstance(func, Func):
        for figure in (*args, *keywords.values()):
            training.report(run, figure, spot)
    return call(run, func, args, keywords, spot, receiver, getattr(node.func, "attr", ""))


def call(
    run: Interpreter,
    func: Value,
    args: list[Value],
    keywords: dict[str, Value],
    spot: Spot,
    receiver: Value | None = None,
    name: str = "",
) -> Value:
    """Call a value."""
    if isinstance(receiver, Choice):
        receiver = algebra.choose(option for option in receiver.options if option != Const(None))
    if isinstance(func, Choice):
        # What an option does to gradients is done once; the others only give their values.
        # Whoever calls what may be None has tested that it isn't.
        results = []
        for position, option in enumerate(option for option in func.options if option != Const(None)):
            kept = len(run.events)
            results.append(call(run, option, args, keywords, spot, receiver, name))
            if position and len(run.events) > kept and any(e.order < kept for e in run.events):
                del run.events[kept:]
        return algebra.choose(results)
    if (declared := own.call(run, func, args, keywords, spot, receiver)) is not None:
        return declared
    followed = isinstance(func, Func) and not _is_framework(receiver)
    if receiver is not None and not followed:
        done = training.method(run, receiver, name, args, keywords, spot)
        if done is not None:
            return done
    match func:
        case Func():
            return _project_call(run, func, args, keywords, spot, receiver, name)
        case ClassRef():
            return instance(run, func, args, keywords, spot)
        case Instance():
            return _call_object(run, func, args, keywords, spot)
        case LossModule():
            return library.loss(run, func, args, keywords, spot)
        case External(path=path):
            return library.function(run, path, args, keywords, spot)
        case Bound(receiver=ClassRef() as cls, name=attr) if _MAKES.match(attr):
            return instance(run, cls, args, keywords, spot)
        case Bound(receiver=of, name=attr):
            return library.method(run, of, attr, args, keywords, spot)
        case Attr(base=of, name=attr):
            return library.method(run, of, attr, args, keywords, spot)
        case Sym(key=key) if key in library.BUILTINS:
            return library.builtin(run, key, args, keywords, spot)
        case _:
            return training.unknown_call(run, func, args, keywords, spot) or library.unknown(
                run, func, args, keywords, spot
            )


def _is_framework(receiver: Value | None) -> bool:
    """Whether an object is a framework's own, which is known better than it reads."""
    return isinstance(receiver, Instance) and receiver.cls.name in FRAMEWORK_CLASSES


def _arguments(run: Interpreter, nodes: list[ast.expr]) -> list[Value]:
    """What is given by place; a sequence that is spread gives its items."""
    found: list[Value] = []
    for node in nodes:
        value = run.evaluate(node.value if isinstance(node, ast.Starred) else node)
        if isinstance(node, ast.Starred) and isinstance(value, Sequence):
            found += value.items
        else:
            found.append(value)
    return found


def _keywords(run: Interpreter, nodes: list[ast.keyword]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for node in nodes:
        value = run.evaluate(node.value)
        if node.arg is not None:
            found[node.arg] = value
        elif isinstance(value, Mapping):
            found.update({str(k): v for k, v in value.entries})
        else:
            found["**"] = value
    return found


# -- functions and classes of the project --------------------------------------------------------------------------


def _project_call(
    run: Interpreter,
    func: Func,
    args: list[Value],
    keywords: dict[str, Value],
    spot: Spot,
    receiver: Value | None,
    name: str,
) -> Value:
    kept = len(run.events)
    decorated = decorators.through(run, func) if is_relevant(run, func) else None
    if decorated is None:
        result = follow(run, func, args, keywords, spot)
    else:
        run.frames.append(Call(text(func), spot))
        result = run.run_function(decorated, args, keywords)
        run.frames.pop()
    if len(run.events) == kept and receiver is not None:
        done = training.method(run, receiver, name, args, keywords, spot)
        if done is not None:
            return done
    return result


def follow(run: Interpreter, func: Func, args: Many[Value], keywords: dict[str, Value], spot: Spot) -> Value:
    """Run a function of the project, if it can matter."""
    if func.key in run.dull or not is_relevant(run, func):
        return library.unknown(run, func, args, keywords, spot)
    kept = len(run.events)
    run.frames.append(Call(text(func), spot))
    try:
        result = run.run_function(func, args, keywords)
    finally:
        run.frames.pop()
    if len(run.events) == kept and _is_dull(result) and func.key not in run.active:
        run.dull.add(func.key)
    return result


def _is_dull(result: Value) -> bool:
    """Whether a result says nothing that a symbol would not say."""
    match result:
        case Const() | Opaque() | Sym() | Called() | Attr() | Item() | Detached():
            return True
        case Sequence(items=items):
            return all(map(_is_dull, items))
        case Choice(options=options):
            return all(map(_is_dull, options))
        case _:
            return False


def is_relevant(run: Interpreter, func: Func) -> bool:
    """Whether a function can train, or make a loss, a count or an object that does."""
    if isinstance(func.node, ast.Lambda):
        return True
    if func.key not in run.relevant:
        run.relevant[func.key] = False  # where functions call each other, what one of them says holds
        run.relevant[func.key] = _is_relevant(run, func)
    return run.relevant[func.key]


def _is_relevant(run: Interpreter, func: Func) -> bool:
    module = run.names.modules.get(func.module)
    if module is None:
        return False
    rows = range(func.node.lineno, (func.node.end_lineno or func.node.lineno) + 1)
    body = "\n".join(module.line(row) for row in rows)
    if len(rows) > _LONG:
        return ".backward" in body or "loss" in body
    return _RELEVANT.search(body) is not None or run.declared.mentioned(body) or _calls_relevant(run, func, body)


def _calls_relevant(run: Interpreter, func: Func, body: str) -> bool:
    """Whether a method whose own words say nothing calls one of its object that matters."""
    if not isinstance(func.bound, Instance):
        return False
    methods = (run.names.method(func.bound.cls, name) for name in dict.fromkeys(_OWN_CALL.findall(body)))
    return any(method is not None and is_relevant(run, method) for method in methods)


def instance(
    run: Interpreter, cls: ClassRef, args: Many[Value], keywords: dict[str, Value], spot: Spot | None = None
) -> Value:
    """A new object of a project class: its ``__init__`` runs."""
    made = Instance(cls, run.fresh())
    init = run.names.method(cls, "__init__")
    if cls.name in FRAMEWORK_CLASSES:
        return made
    if init is None:
        for (name, default), value in zip(_fields(cls), [*args], strict=False):
            del default
            run.heap[made.id, name] = value
        for name, value in keywords.items():
            run.heap[made.id, name] = value
        return made
    kept = len(run.events)
    run.run_function(dataclasses.replace(init, bound=made), args, keywords)
    del run.events[kept:]
    return made


def _fields(cls: ClassRef) -> list[tuple[str, ast.expr | None]]:
    """Annotated names of a class body: the fields of a dataclass."""
    return [
        (node.target.id, node.value)
        for node in cls.node.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]


def _call_object(run: Interpreter, obj: Instance, args: list[Value], keywords: dict[str, Value], spot: Spot) -> Value:
    for name in ("__call__", "forward"):
        method = run.names.method(obj.cls, name)
        if method is not None:
            return follow(run, dataclasses.replace(method, bound=obj), args, keywords, spot)
    return library.unknown(run, obj, args, keywords, spot)


def bound_method(run: Interpreter, method: Func, obj: Instance | Sym) -> Value:
    """A method of an object; a property is read, a static method stays unbound."""
    decorators = {spelled(d).rsplit(".", 1)[-1] for d in getattr(method.node, "decorator_list", ())}
    if "staticmethod" in decorators:
        return method
    bound = dataclasses.replace(method, bound=obj)
    if decorators & {"property", "cached_property"}:
        return run.run_function(bound, (), {})
    return bound


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _super(run: Interpreter, node: ast.Call, spot: Spot) -> Value:
    assert isinstance(node.func, ast.Attribute)
    args = [run.evaluate(a.value if isinstance(a, ast.Starred) else a) for a in node.args]
    keywords = _keywords(run, node.keywords)
    me = run.scope.env.get("self")
    if isinstance(me, Instance) and run.scope.owner is not None:
        method = run.names.method(me.cls, node.func.attr, after=run.scope.owner)
        if method is not None:
            return follow(run, dataclasses.replace(method, bound=me), args, keywords, spot)
    return library.unknown(run, Attr(Sym("super()"), node.func.attr), args, keywords, spot)


def evaluate_elsewhere(run: Interpreter, found: Assigned, name: str) -> Value:
    """A top-level or class-level assignment, evaluated where it stands."""
    key = id(found.node)
    if key not in run.globals:
        if key in run.active or len(run.scopes) > 12:
            return Sym(name)
        run.globals[key] = _elsewhere(run, found, key, name)
    return run.globals[key]


def _elsewhere(run: Interpreter, found: Assigned, key: int, name: str) -> Value:
    run.active.append(key)
    run.scopes.append(run.new_scope(found.module))
    kept, events = run.frames, len(run.events)
    run.frames = []
    try:
        value = bounded(run.evaluate(found.node))
    finally:
        run.scopes.pop()
        run.active.pop()
        run.frames = kept
        del run.events[events:]
    if isinstance(value, Const) and isinstance(value.value, int | float) and not isinstance(value.value, bool):
        return Sym(name, default=value)  # a module's constant keeps its name: it is what messages should say
    if isinstance(value, Item | Element | Called):
        return Sym(name, value)
    return value
