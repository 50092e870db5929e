"""Functions of the project that are called through decorators of the project: what such a name really is."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from gafixer.analysis.values import Func

if TYPE_CHECKING:
    from gafixer.analysis.interpreter import Interpreter

__all__ = ["through"]


def through(run: Interpreter, func: Func) -> Func | None:
    """What the decorators make of a function; None where none of the project does anything to it.

    A decorator of a library, and one that gives back something that is no function, is passed over.
    """
    node = func.node
    if func.plain or func.closure or not isinstance(node, ast.FunctionDef) or not node.decorator_list:
        return None
    module = run.names.modules.get(func.module)
    if module is None:
        return None
    made = plain = dataclasses.replace(func, plain=True, bound=None)
    run.scopes.append(run.new_scope(module))
    kept, events = run.frames, len(run.events)
    run.frames = []
    try:
        for decorator in reversed(node.decorator_list):
            found = run.evaluate(decorator)
            if isinstance(found, Func) and found.module in run.names.modules:
                result = run.run_function(found, (made,), {})
                made = result if isinstance(result, Func) else made
    finally:
        run.scopes.pop()
        run.frames = kept
        del run.events[events:]
    return None if made is plain else dataclasses.replace(made, bound=func.bound)
