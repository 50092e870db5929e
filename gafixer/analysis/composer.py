"""Composer: splits each batch into microbatches, and weighs the mean of each by its share of the batch's samples."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gafixer.analysis import calls
from gafixer.analysis.events import EventKind, Framework, Loop, LoopKind
from gafixer.analysis.interpreter import Interpreter
from gafixer.analysis.lightning import returned, signature
from gafixer.analysis.roots import Run
from gafixer.analysis.spelling import peel
from gafixer.analysis.values import Called, ClassRef, Const, Element, External, Func, Sym, Value
from gafixer.data.frameworks import COMPOSER_MODELS
from gafixer.declared import NOTHING

if TYPE_CHECKING:
    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Module
    from gafixer.analysis.values import Spot
    from gafixer.declared import Declared

__all__ = ["runs", "train"]

_TRAINER = re.compile(r"^composer\b.*\bTrainer$")


def train(run: Interpreter, path: str, args: list[Value], keywords: dict[str, Value], spot: Spot) -> bool:
    """Whether a call makes a Trainer; the default loss of the head that it wraps goes backward then."""
    if not _TRAINER.match(path):
        return False
    wrapped = peel(keywords.get("model", args[0] if args else Const(None)))
    match wrapped:
        case Called(func=External(path=made), args=(model, *_)) if made.endswith("HuggingFaceModel"):
            _send(run, Called(model, (), (("labels", Sym("labels")),), spot, run.loops), spot)
        case _:
            pass
    return True


def _send(run: Interpreter, loss: Value, spot: Spot) -> None:
    run.emit(EventKind.BACKWARD, spot, loss, None, Framework.COMPOSER)
    run.emit(EventKind.STEP, spot, None, Sym("optimizer"), Framework.COMPOSER)


def runs(module: Module, project: Project, declared: Declared = NOTHING) -> list[Run]:
    """One run for every model class that has a loss of its own."""
    if "composer" not in module.source or "def loss" not in module.source:
        return []
    found = []
    for node in module.statements():
        if isinstance(node, ast.ClassDef):
            run = Interpreter(project, module, set(), declared)
            cls = ClassRef(module.path, node.name, node)
            loss = run.names.method(cls, "loss")
            if loss is not None and loss.owner == cls and _is_model(cls, run):
                found.append(_run(run, module, cls, loss))
    return found


def _is_model(cls: ClassRef, run: Interpreter) -> bool:
    paths = (parent.path for parent in run.names.lineage(cls) if isinstance(parent, External))
    return any(path.startswith("composer") and path.rpartition(".")[2] in COMPOSER_MODELS for path in paths)


def _run(run: Interpreter, module: Module, cls: ClassRef, loss: Func) -> Run:
    assert isinstance(loss.node, ast.FunctionDef)
    run.scopes.append(run.new_scope(module))
    made = calls.instance(run, cls, (), {})
    spot = signature(loss.node, module)
    loop = Loop(run.fresh(), LoopKind.IMPLICIT, spot, over=Sym("microbatches"))
    run.frames.append(loop)
    batch = Element(Sym("microbatches"), loop.id)
    outputs = calls.call(run, run.attribute(made, "forward"), [batch], {}, spot)
    result = calls.call(run, run.attribute(made, "loss"), [outputs, batch], {}, spot)
    _send(run, result, returned(loss.node, module))
    run.frames.pop()
    return Run(tuple(run.events), run)
