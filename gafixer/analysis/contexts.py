"""Contexts: what ``with`` binds, and where gradients are off."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gafixer.analysis.names import spelled
from gafixer.analysis.spelling import text
from gafixer.analysis.values import Called, Value

if TYPE_CHECKING:
    import ast

__all__ = ["enter", "stops_gradient", "without_gradient"]

_NO_GRAD = re.compile(r"no_grad\b|inference_mode\b|set_grad_enabled")


def without_gradient(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    """Whether a function is decorated with ``no_grad`` or its like."""
    return any(_NO_GRAD.search(spelled(d)) for d in getattr(node, "decorator_list", ()))


def stops_gradient(context: Value) -> bool:
    """Whether a ``with`` block is ``no_grad`` or its like."""
    return isinstance(context, Called) and _NO_GRAD.search(text(context.func)) is not None


def enter(context: Value) -> Value:
    """What ``with context as name`` binds: for ``amp.scale_loss(loss, optimizer)`` the loss."""
    if isinstance(context, Called) and text(context.func).endswith("scale_loss") and context.args:
        return context.args[0]
    return context
