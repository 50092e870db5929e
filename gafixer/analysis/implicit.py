"""Training steps whose loss a framework sends backward: nobody in sight calls `backward`.

Lightning's automatic optimization takes what `training_step` returns, and divides it by `accumulate_grad_batches`.
Composer takes what a model's `loss` returns. Transformers' Trainer takes what `compute_loss` returns.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gafixer.analysis import algebra, calls, composer, overrides
from gafixer.analysis.classes import Classes
from gafixer.analysis.events import AUTOMATIC, EventKind, Framework, Loop, LoopKind
from gafixer.analysis.interpreter import Interpreter
from gafixer.analysis.roots import Run
from gafixer.analysis.spelling import text
from gafixer.analysis.spot import Spot
from gafixer.analysis.values import (
    Choice,
    ClassRef,
    Const,
    Element,
    External,
    Func,
    Kind,
    Mapping,
    Sequence,
    Sym,
    Term,
    Value,
)
from gafixer.data.frameworks import COMPOSER_MODELS, STEPS_NAME
from gafixer.data.transformers import COUNT
from gafixer.declared import NOTHING

if TYPE_CHECKING:
    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Module
    from gafixer.declared import Declared

__all__ = ["runs"]

_LIGHTNING = re.compile(r"lightning|\bpl\.|LightningModule|LightningLite")
#: What Lightning calls between backward and the step.
_HOOKS = ("on_after_backward", "on_before_optimizer_step", "configure_gradient_clipping")
_MANUAL = re.compile(r"automatic_optimization\s*=\s*False|manual_backward")


def runs(module: Module, project: Project, declared: Declared = NOTHING) -> list[Run]:
    """One run for every class of a framework that says what the loss is."""
    makers = []
    if "training_step" in module.source and _LIGHTNING.search(module.source):
        makers.append(_lightning)
    if "composer" in module.source and "def loss" in module.source:
        makers.append(_composer)
    if "def compute_loss" in module.source:
        makers.append(_trainer)
    found = []
    for node in module.statements():
        if isinstance(node, ast.ClassDef):
            cls = ClassRef(module.path, node.name, node)
            found += [
                run for make in makers if (run := make(Interpreter(project, module, set(), declared), module, cls))
            ]
    return found


# -- Lightning -------------------------------------------------------------------------------------------------------


def _lightning(run: Interpreter, module: Module, cls: ClassRef) -> Run | None:
    step = _training_step(cls.node)
    if step is None or not _is_lightning(cls, run) or _MANUAL.search(_text(cls.node, module)):
        return None
    return _run(run, module, cls, step)


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
    run.frames.append(Loop(run.fresh(), LoopKind.IMPLICIT, _signature(step, module)))
    result = _call(run, cls, made, step.name)
    run.emit(EventKind.BACKWARD, _returned(step, module), _loss(result), AUTOMATIC, Framework.LIGHTNING)
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


def _signature(step: ast.FunctionDef, module: Module) -> Spot:
    """The ``def`` of a function that a framework calls."""
    return Spot(module.path, step.lineno, step.col_offset, step.lineno, step.col_offset + len("def"))


def _returned(step: ast.FunctionDef, module: Module) -> Spot:
    """What is handed to the framework: the last value that is returned."""
    values = [n.value for n in ast.walk(step) if isinstance(n, ast.Return) and n.value is not None]
    node = max(values, key=lambda value: value.lineno, default=None)
    if node is None:
        return _signature(step, module)
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


# -- Transformers ----------------------------------------------------------------------------------------------------


def _trainer(run: Interpreter, module: Module, cls: ClassRef) -> Run | None:
    """A `compute_loss` of the user's, where it is known to be divided by the steps: by itself, or by `Trainer`."""
    compute = next((n for n in cls.node.body if isinstance(n, ast.FunctionDef) and n.name == "compute_loss"), None)
    classes = Classes(run.names)
    if compute is None or not overrides.is_trainer(cls, classes):
        return None
    run.scopes.append(run.new_scope(module))
    made = calls.instance(run, cls, (), {})
    loop = Loop(run.fresh(), LoopKind.IMPLICIT, _signature(compute, module), over=Sym("batches"))
    run.frames.append(loop)
    keywords: dict[str, Value] = {"return_outputs": Const(False), COUNT: Sym(COUNT)}
    batch = Element(Sym("batches"), loop.id)
    loss = _first(calls.call(run, run.attribute(made, compute.name), [Sym("model"), batch], keywords, loop.spot))
    told = overrides.told_to_divide(cls, classes, module)
    if not _is_own(loss) or not (told or _divides(loss)):
        return None
    subject = External("transformers.Trainer") if told else None
    run.emit(EventKind.BACKWARD, _returned(compute, module), loss, subject, Framework.TRAINER)
    run.frames.pop()
    return Run(tuple(run.events), run)


def _first(result: Value) -> Value:
    """The loss in what `compute_loss` returns: itself, or what stands before the outputs."""
    match result:
        case Sequence(items=(loss, *_)):
            return loss
        case Choice(options=options):
            return algebra.choose(map(_first, options))
        case _:
            return result


def _is_own(loss: Value) -> bool:
    """Whether a loss is made here, and is not only a model's."""
    return any(term.atom is not None and term.atom.kind in {Kind.LOSS, Kind.REDUCED} for term in _terms(loss))


def _divides(loss: Value) -> bool:
    """Whether a loss was divided by the number of steps."""
    factors = (factor for term in _terms(loss) for factor in term.factors)
    return any(factor.power < 0 and STEPS_NAME.search(text(factor.value)) for factor in factors)


def _terms(loss: Value) -> list[Term]:
    """The terms of all values that a loss may have."""
    if isinstance(loss, Choice):
        return [term for option in loss.options for term in _terms(option)]
    whole = algebra.poly(loss)
    return list(whole.terms) if whole is not None else []


# -- Composer --------------------------------------------------------------------------------------------------------


def _composer(run: Interpreter, module: Module, cls: ClassRef) -> Run | None:
    loss = run.names.method(cls, "loss")
    return _composed(run, module, cls, loss) if loss is not None and loss.owner == cls and _is_model(cls, run) else None


def _is_model(cls: ClassRef, run: Interpreter) -> bool:
    paths = (parent.path for parent in run.names.lineage(cls) if isinstance(parent, External))
    return any(path.startswith("composer") and path.rpartition(".")[2] in COMPOSER_MODELS for path in paths)


def _composed(run: Interpreter, module: Module, cls: ClassRef, loss: Func) -> Run:
    assert isinstance(loss.node, ast.FunctionDef)
    run.scopes.append(run.new_scope(module))
    made = calls.instance(run, cls, (), {})
    spot = _signature(loss.node, module)
    loop = Loop(run.fresh(), LoopKind.IMPLICIT, spot, over=Sym("microbatches"))
    run.frames.append(loop)
    batch = Element(Sym("microbatches"), loop.id)
    outputs = calls.call(run, run.attribute(made, "forward"), [batch], {}, spot)
    result = calls.call(run, run.attribute(made, "loss"), [outputs, batch], {}, spot)
    composer.send(run, result, _returned(loss.node, module))
    run.frames.pop()
    return Run(tuple(run.events), run)
