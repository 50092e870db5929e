"""Classes and functions that code picks by a name it is given: all that its project could mean."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.analysis import algebra, calls, library
from gafixer.analysis.names import Assigned
from gafixer.analysis.values import (
    Attr,
    ClassRef,
    Const,
    External,
    Func,
    Item,
    Mapping,
    ModuleRef,
    Sym,
    Value,
)
from gafixer.data.dispatch import BUILDS, INSTANTIATES, LOSSY, TAKES_REGISTRY

if TYPE_CHECKING:
    from gafixer.analysis.interpreter import Interpreter
    from gafixer.analysis.source import Module
    from gafixer.analysis.spot import Spot
    from gafixer.analysis.targets import Target

__all__ = ["evaluate", "subscript"]

#: More candidates than this say nothing.
_MOST = 8


def evaluate(run: Interpreter, node: ast.Call) -> Value | None:
    """The value of a call that picks by name; None: it is another call, or nothing is known of the names."""
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[holder, name, *_]):
            return _member(run, holder, name)
        case ast.Call(func=func, args=[part, *rest]) if _last(func) in INSTANTIATES and not rest:
            return _instantiated(run, node, part) or _built(run, func, node)
        case ast.Call(func=func, args=[_, registry]) if _last(func) in TAKES_REGISTRY:
            return _made(run, _registered(run, registry), run.spot(node))
        case ast.Call(func=ast.Attribute(value=registry, attr="get"), args=[_, *_]):
            return _chosen(_registered(run, registry))
        case ast.Call(func=func):
            return _built(run, func, node)


def subscript(run: Interpreter, node: ast.Subscript) -> Value | None:
    """``LOSSES[name]``, ``globals()[name]``; None: it is another subscript, or nothing is known of the names."""
    match node:
        case ast.Subscript(slice=ast.Slice() | ast.Tuple() | ast.Constant()):
            return None
        case ast.Subscript(value=ast.Call(func=ast.Name(id="globals"), args=[])):
            return _chosen(_members(run, run.scope.module))
        case ast.Subscript(value=registry):
            return _chosen(_registered(run, registry))


def _built(run: Interpreter, func: ast.expr, node: ast.Call) -> Value | None:
    match func:
        case ast.Attribute(value=registry, attr=attr) if attr in BUILDS:
            return _made(run, _registered(run, registry), run.spot(node))
        case _:
            return None


def _last(func: ast.expr) -> str:
    return func.id if isinstance(func, ast.Name) else getattr(func, "attr", "")


# -- names in modules ----------------------------------------------------------------------------------------------


def _member(run: Interpreter, holder: ast.expr, name: ast.expr) -> Value | None:
    match run.evaluate(holder), run.evaluate(name):
        case _, Const():
            return None
        case ModuleRef(name=path), _:
            return _chosen(_members(run, run.names.modules[path]))
        case External() as library_module, Sym(default=Const(value=str() as attr)):
            return run.attribute(library_module, attr)
        case _:
            return None


def _members(run: Interpreter, module: Module) -> list[Value]:
    """The losses that a module defines or hands on."""
    found = [run.names.lookup(module, name) for name in run.names.visible(module) if LOSSY.search(name)]
    return [value for value in found if isinstance(value, ClassRef | Func)]


# -- registries ----------------------------------------------------------------------------------------------------


def _registered(run: Interpreter, node: ast.expr) -> list[Value]:
    """What is told to the registry that a module-level name holds, and what stands in it from the first."""
    module = run.scope.module
    match node:
        case ast.Name(id=name) if name not in run.scope.env:
            pass
        case ast.Attribute(value=ast.Name() as holder, attr=name):
            if isinstance(held := run.evaluate(holder), ModuleRef):
                module = run.names.modules[held.name]
        case _:
            return []
    told = run.names.registered(name, module)
    if not told:
        return []
    value = run.evaluate(node)
    first = [entry for _, entry in value.entries] if isinstance(value, Mapping) else []
    every = [*first, *(calls.evaluate_elsewhere(run, v, name) if isinstance(v, Assigned) else v for v in told)]
    losses: list[Value] = [v for v in every if isinstance(v, ClassRef | Func) and LOSSY.search(_name(v))]
    return losses or every


def _name(value: ClassRef | Func) -> str:
    return value.name if isinstance(value, ClassRef) else getattr(value.node, "name", "")


def _chosen(candidates: list[Value]) -> Value | None:
    return algebra.choose(candidates) if 0 < len(candidates) <= _MOST else None


def _made(run: Interpreter, candidates: list[Value], spot: Spot) -> Value | None:
    picked = _chosen(candidates)
    return None if picked is None else calls.call(run, picked, [], {}, spot)


# -- configuration -------------------------------------------------------------------------------------------------


def _instantiated(run: Interpreter, node: ast.Call, part: ast.expr) -> Value | None:
    """What is made of a part of the configuration, by the last key that leads to it."""
    match run.evaluate(part):
        case Attr(name=str() as key) | Item(key=Const(value=str() as key)):
            pass
        case _:
            return None
    targets = run.names.targets(key, run.scope.module)
    if not 0 < len(targets) <= _MOST:
        return None
    given = {k.arg: run.evaluate(k.value) for k in node.keywords if k.arg is not None and not k.arg.startswith("_")}
    made = [_of_target(run, target, given) for target in targets]
    return algebra.choose(dict.fromkeys(made))


def _of_target(run: Interpreter, target: Target, given: dict[str, Value]) -> Value:
    meant = run.names.absolute(target.path, run.scope.module)
    value = calls.evaluate_elsewhere(run, meant, target.path) if isinstance(meant, Assigned) else meant
    keywords: dict[str, Value] = {**dict(target.arguments), **given}
    if target.partial:
        return library.function(run, "functools.partial", [value], keywords, target.spot)
    return calls.call(run, value, [], keywords, target.spot)
