"""What a framework object was made with: whether its backward divides, and by what."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from gafixer.analysis.spelling import peel, text
from gafixer.analysis.values import Called, Const, External, Sym, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gafixer.analysis.source import Module

__all__ = ["accelerate_steps"]

#: Nodes of an expression that a message shows.
_LONGEST = 40
_KEYWORDS = ("gradient_accumulation_steps", "gradient_accumulation_plugin", "deepspeed_plugin", "deepspeed_plugins")


def accelerate_steps(receiver: Value | None, modules: Iterable[Module]) -> Value | None:
    """The steps that `accelerator.backward` divides by: a value, ``Const(1)`` for none, None where it isn't visible."""
    made = peel(receiver) if receiver is not None else None
    if isinstance(made, Called) and text(made.func).endswith("Accelerator") and isinstance(made.func, External):
        given = dict(made.keywords)
        return _given(given)
    found = [node for module in modules for node in module.once(_constructors)]
    if not found:
        return None
    for node in found:
        names = {k.arg for k in node.keywords}
        if None in names:
            return None
        for keyword in node.keywords:
            if keyword.arg == "gradient_accumulation_steps":
                value = keyword.value
                return Const(value.value) if isinstance(value, ast.Constant) else Sym(_spelling(value))
            if keyword.arg in _KEYWORDS:
                return Sym("gradient_accumulation_steps")
    return Const(1)


def _spelling(value: ast.expr) -> str:
    """An expression as it is written, if it is one that a message can hold."""
    short = len(list(itertools.islice(ast.walk(value), _LONGEST))) < _LONGEST
    return ast.unparse(value) if short else "gradient_accumulation_steps"


def _given(keywords: dict[str, Value]) -> Value | None:
    if "gradient_accumulation_steps" in keywords:
        return keywords["gradient_accumulation_steps"]
    if any(name in keywords for name in _KEYWORDS):
        return Sym("gradient_accumulation_steps")
    return None if "**" in keywords else Const(1)


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
