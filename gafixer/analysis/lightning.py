"""Lightning: nobody in sight calls `backward`.

Lightning's automatic optimization takes what `training_step` returns, and divides it by `accumulate_grad_batches`.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gafixer.analysis import algebra, calls
from gafixer.analysis.events import AUTOMATIC, EventKind, Framework, Loop, LoopKind
from gafixer.analysis.interpreter import Interpreter
from gafixer.analysis.roots import Run
from gafixer.analysis.values import Choice, ClassRef, Const, External, Func, Mapping, Spot, Value
from gafixer.declared import NOTHING

if TYPE_CHECKING:
    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Module
    from gafixer.declared import Declared

__all__ = ["returned", "runs", "signature"]

_LIGHTNING = re.compile(r"lightning|\bpl\.|LightningModule|LightningLite")
#: What Lightning calls between backward and the step.
_HOOKS = ("on_after_backward", "on_before_optimizer_step", "configure_gradient_clipping")
_MANUAL = re.compile(r"automatic_optimization\s*=\s*False|manual_backward")


def runs(module: Module, project: Project, declared: Declared = NOTHING) -> list[Run]:
    """One run for every `training_step` under automatic optimization."""
    if "training_step" not in module.source or not _LIGHTNING.search(module.source):
        return []
    found = []
    for node in module.statements():
        if isinstance(node, ast.ClassDef) and (step := _training_step(node)) is not None:
            run = Interpreter(project, module, set(), declared)
            cls = ClassRef(module.path, node.name, node)
            if _is_lightning(cls, run) and not _MANUAL.search(_text(node, module)):
                found.append(_run(run, module, cls, step))
    return found


def _training_step(node: ast.ClassDef) -> ast.FunctionDef | None:
    return next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "training_step"), None)


def _is_lightning(cls: ClassRef, run: Interpreter) -> bool:
    """Whether a class is a LightningModule, by a base class in the project or in the library."""
    names = [p.path if isinstance(p, External) else p.name for p in run.names.lineage(cls)]
    return any(_LIGHTNING.search(name) and "Trainer" not in name for name in names)


def _text(node: ast.stmt, module: Module) -> str:
    return "\n".join(module.line(row) for row in range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _run(run: Interpreter, module: Module, cls: ClassRef, step: ast.FunctionDef) -> Run:
    run.scopes.append(run.new_scope(module))
    made = calls.instance(run, cls, (), {})
    run.frames.append(Loop(run.fresh(), LoopKind.IMPLICIT, signature(step, module)))
    result = _call(run, cls, made, step.name)
    run.emit(EventKind.BACKWARD, returned(step, module), _loss(result), AUTOMATIC, Framework.LIGHTNING)
    for hook in _HOOKS:
        _call(run, cls, made, hook)
    run.frames.pop()
    return Run(tuple(run.events), run)


def _call(run: Interpreter, cls: ClassRef, made: Value, name: str) -> Value:
    found = run.names.method(cls, name)
    if found is None:
        return Const(None)
    method = calls.bound_method(run, found, made)  # type: ignore[arg-type] # a class makes an instance
    return run.run_function(method, (), {}) if isinstance(method, Func) else Const(None)


def signature(step: ast.FunctionDef, module: Module) -> Spot:
    """The ``def`` of a function that a framework calls."""
    return Spot(module.path, step.lineno, step.col_offset, step.lineno, step.col_offset + len("def"))


def returned(step: ast.FunctionDef, module: Module) -> Spot:
    """What is handed to the framework: the last value that is returned."""
    values = [n.value for n in ast.walk(step) if isinstance(n, ast.Return) and n.value is not None]
    node = max(values, key=lambda value: value.lineno, default=None)
    if node is None:
        return signature(step, module)
    return Spot(module.path, node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0)


def _loss(result: Value) -> Value:
    """The loss in what `training_step` returns: itself, or the dict's."""
    match result:
        case Mapping():
            return result.get("loss") or Const(None)
        case Choice(options=options):
            return algebra.choose(_loss(option) for option in options if option != Const(None))
        case _:
            return result
