"""What an Accelerator was made with, and what is set on it later: whether its backward divides, and by what."""

from __future__ import annotations

import ast
import itertools
import re
from typing import TYPE_CHECKING

from gafixer.analysis.spelling import peel, text
from gafixer.analysis.values import Called, Const, External, Sym, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gafixer.analysis.source import Module

__all__ = ["accelerate_steps"]

#: Nodes of an expression that a message shows.
_LONGEST = 40
_STEPS = "gradient_accumulation_steps"
#: Plugins, and the argument of each that is the number of steps.
_PLUGINS = {
    "gradient_accumulation_plugin": "num_steps",
    "deepspeed_plugin": _STEPS,
    "deepspeed_plugins": _STEPS,
}
_LATER = re.compile(rf"\baccelerator\.{_STEPS}[ \t]*=(?!=)[ \t]*(?P<value>[^\n#]+)")


def accelerate_steps(receiver: Value | None, modules: Iterable[Module]) -> Value | None:
    """The steps that `accelerator.backward` divides by: a value, ``Const(1)`` for none, None where it isn't visible."""
    modules = list(modules)
    later = next((found for module in modules if (found := module.once(_set_later)) is not None), None)
    if later is not None:
        return later
    made = peel(receiver) if receiver is not None else None
    if isinstance(made, Called) and text(made.func).endswith("Accelerator") and isinstance(made.func, External):
        return _given(dict(made.keywords))
    for node in (node for module in modules for node in module.once(_constructors)):
        if None in {k.arg for k in node.keywords}:
            return None
        written = {k.arg: k.value for k in node.keywords}
        if _STEPS in written:
            return _value(written[_STEPS])
        for name, argument in _PLUGINS.items():
            if name in written:
                return _plugged(written[name], argument)
    return Const(1) if any(module.once(_constructors) for module in modules) else None


def _set_later(module: Module) -> Value | None:
    """What is assigned to ``accelerator.gradient_accumulation_steps``."""
    match = _LATER.search(module.source)
    if match is None:
        return None
    written = match["value"].strip()
    return Const(int(written)) if written.isdigit() else Sym(written if len(written) < _LONGEST else _STEPS)


def _given(keywords: dict[str, Value]) -> Value | None:
    if _STEPS in keywords:
        return keywords[_STEPS]
    for name, argument in _PLUGINS.items():
        if name in keywords:
            made = peel(keywords[name])
            return dict(made.keywords).get(argument, Sym(_STEPS)) if isinstance(made, Called) else Sym(_STEPS)
    return None if "**" in keywords else Const(1)


def _plugged(node: ast.expr, argument: str) -> Value:
    if isinstance(node, ast.Call):
        return next((_value(k.value) for k in node.keywords if k.arg == argument), Sym(_STEPS))
    return Sym(_STEPS)


def _value(node: ast.expr) -> Value:
    """A literal, or an expression as it is written, if it is one that a message can hold."""
    if isinstance(node, ast.Constant):
        return Const(node.value)
    short = len(list(itertools.islice(ast.walk(node), _LONGEST))) < _LONGEST
    return Sym(ast.unparse(node) if short else _STEPS)


def _constructors(module: Module) -> list[ast.Call]:
    if "Accelerator(" not in module.source:
        return []
    found = []
    for statement in module.statements():
        for node in ast.walk(statement):
            match node:
                case ast.Call(func=ast.Name(id="Accelerator") | ast.Attribute(attr="Accelerator")):
                    found.append(node)
                case _:
                    pass
    return found
