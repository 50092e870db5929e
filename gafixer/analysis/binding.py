"""What the parameters of a called function of the project are bound to."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from gafixer.analysis.spelling import bounded
from gafixer.analysis.values import ClassRef, Const, Func, Mapping, Sequence, Sym, Value
from gafixer.data.frameworks import FRAMEWORK_CLASSES

if TYPE_CHECKING:
    from collections.abc import Sequence as Many

    from gafixer.analysis.interpreter import Interpreter

__all__ = ["bind"]


def bind(run: Interpreter, func: Func, args: Many[Value], keywords: dict[str, Value]) -> dict[str, Value]:
    """Parameter -> value for a call of a function of the project."""
    spec = func.node.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    given = ([func.bound] if func.bound is not None else []) + [bounded(a) for a in args]
    env: dict[str, Value] = dict(zip(names, given, strict=False))
    for name, value in (*func.preset, *keywords.items()):
        if name in names or any(a.arg == name for a in spec.kwonlyargs):
            env[name] = bounded(value)
    defaults = dict(zip(names[len(names) - len(spec.defaults) :], spec.defaults, strict=True))
    defaults |= {a.arg: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None}
    # A call in sight leaves a parameter at its default; a root's own caller may give another.
    seen = len(run.scopes) > 1 and "**" not in keywords
    for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
        if argument.arg not in env:
            env[argument.arg] = _default(argument, defaults.get(argument.arg), seen=seen)
    for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
        if argument.annotation is not None:
            env[argument.arg] = _annotated(run, func, argument, env[argument.arg])
    if spec.vararg is not None:
        extra = tuple(given[len(names) :])
        env[spec.vararg.arg] = Sequence(extra) if extra else Sym(spec.vararg.arg)
    if spec.kwarg is not None:
        rest = tuple((name, bounded(value)) for name, value in keywords.items() if name not in env)
        env[spec.kwarg.arg] = Mapping(rest) if rest and "**" not in keywords else Sym(spec.kwarg.arg)
    return env


def _annotated(run: Interpreter, func: Func, argument: ast.arg, value: Value) -> Value:
    """A symbol of a class of the project, where the annotation names one."""
    if not isinstance(value, Sym) or value.cls is not None or not isinstance(argument.annotation, ast.expr):
        return value
    match run.names.dotted(run.names.modules[func.module], argument.annotation):
        case ClassRef(name=name) as cls if name not in FRAMEWORK_CLASSES:
            return dataclasses.replace(value, cls=cls)
        case _:
            return value


def _default(argument: ast.arg, default: ast.expr | None, *, seen: bool) -> Value:
    """What a parameter that nobody gave is: its default, or (where the caller is not in sight) perhaps that."""
    known = Const(default.value) if isinstance(default, ast.Constant) else None
    if seen and known is not None and (known.value is None or isinstance(known.value, str | bool)):
        return known
    return Sym(argument.arg, default=known)
