"""Heads: model classes with a default loss, and what that loss does with the window's count."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis.classes import Classes, may_inherit
from gafixer.analysis.flow import NOTHING, Flow
from gafixer.analysis.names import Names
from gafixer.analysis.spot import Spot
from gafixer.analysis.tracing import Tracer
from gafixer.analysis.tracing_calls import defaults
from gafixer.analysis.values import ClassRef, External, Func, Instance
from gafixer.data.transformers import COUNT, HEAD_NAME, LABELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gafixer.analysis.flow import LossCall
    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Block, Module
    from gafixer.findings import Place

__all__ = ["Flag", "HeadSite", "heads"]

_FLAG = "accepts_loss_kwargs"
_FORWARD = re.compile(r"\bdef forward\([^:]*(?::(?!\n)[^:]*)*")
_TARGET = re.compile(r"label|target|_positions|\by(_true)?\b")
#: A class whose forward may be inherited: its header names a head.
_INHERITS = re.compile(r"class\s+\w+\s*\([^)]*(For[A-Z]|Head|LM|Base|Mixin|Model)\w*")
#: Beyond this, a class that has no forward of its own isn't looked at.
_SHORT = 60


@dataclass(frozen=True, slots=True)
class Flag:
    """A switch that tells `Trainer` who divides: its value, where it is set, and whether that always happens."""

    name: str
    value: bool
    spot: Spot
    always: bool = True


@dataclass(frozen=True, slots=True)
class HeadSite:
    """A model class whose forward takes labels.

    `library` says that it is a Transformers model (and not a plain module that `Trainer` may be given). `kwargs` is the
    name of the forward's catch-all parameter, which `Trainer` takes for the promise to divide by the count, unless the
    forward raises where something is in it; `counted` that the targets come as `labels`, the only ones that `Trainer`
    counts. `inherited` is the base class that is a head by itself and has this forward, `base` the library's head that
    it is made of.
    """

    name: str
    spot: Spot
    forward: Spot
    library: bool
    kwargs: str | None
    named: bool
    counted: bool
    flag: Flag | None
    trace: Callable[[], tuple[LossCall, ...]]
    inherited: str | None
    base: str | None
    path: str
    place: Callable[[Spot], Place]

    @property
    def losses(self) -> tuple[LossCall, ...]:
        """What the forward returns for a loss. It is followed when this is first asked: of most heads nothing is."""
        return self.trace()

    @property
    def promises(self) -> bool:
        """Whether `Trainer` believes (from 4.48 on) that the head divides by the count."""
        return self.flag.value if self.flag is not None else self.kwargs is not None

    def own(self, spot: Spot | None) -> Spot:
        """The spot where a finding about `spot` belongs: itself, or the class that leads there."""
        return spot if spot is not None and spot.path == self.path else self.spot


def heads(module: Module, project: Project, *, flagged: bool = False) -> list[HeadSite]:
    """The heads that a module defines; none where only `flagged` ones are asked for and no text tells of the switch."""
    names = Names(project, module)
    if flagged and not may_inherit(module, names, _FLAG):
        return []
    classes = Classes(names)
    found = []
    for node in _classes(module):
        cls = ClassRef(module.path, node.name, node)
        site = _head(cls, module, classes)
        if site is not None:
            found.append(site)
    return found


def _classes(module: Module) -> Iterator[ast.ClassDef]:
    """The classes whose text may make them heads."""
    for block in module.blocks:
        if block.nodes is None and not _may_be_head(block):
            continue
        for node in block.parsed():
            if isinstance(node, ast.ClassDef):
                yield node


def _may_be_head(block: Block) -> bool:
    """A block may hold several classes: one of them is enough."""
    if not block.text.startswith(("class", "@")):
        return False
    forwards = _FORWARD.findall(block.text)
    if any(_TARGET.search(forward) for forward in forwards):
        return True
    if forwards and block.name is not None:
        return False
    return block.text.count("\n") < _SHORT and _INHERITS.search(block.text) is not None


def _head(cls: ClassRef, module: Module, classes: Classes) -> HeadSite | None:
    forward = classes.method(cls, "forward")
    if forward is None or not isinstance(forward.node, ast.FunctionDef):
        return None
    targets = [name for name in _parameters(forward.node) if LABELS.search(name)]
    lineage = classes.lineage(cls)
    if not targets or not _is_module(lineage):
        return None
    kwarg = forward.node.args.kwarg
    return HeadSite(
        name=cls.name,
        spot=_header(cls),
        forward=_def(forward.module, forward.node),
        library=_is_library(lineage),
        kwargs=kwarg.arg if kwarg is not None and not _refuses(forward.node, kwarg.arg) else None,
        named=COUNT in _parameters(forward.node),
        counted="labels" in targets,
        flag=_flag(cls, classes),
        trace=functools.cache(lambda: _losses(forward, cls, classes)),
        inherited=_inherited(cls, forward, classes),
        base=next((name for name in map(_last, lineage) if re.fullmatch(HEAD_NAME, name)), None),
        path=module.path,
        place=lambda spot: classes.names.modules.get(spot.path, module).place(spot),
    )


def _refuses(node: ast.FunctionDef, kwarg: str) -> bool:
    """Whether a forward raises where its catch-all parameter holds the count: it takes some names only."""
    for statement in node.body:
        if any(isinstance(part, ast.Constant) and part.value == COUNT for part in ast.walk(statement)):
            return False
        match statement:
            case ast.If(test=test, body=[*_, ast.Raise()]):
                if kwarg in _counted(test):
                    return True
            case _:
                pass
    return False


def _counted(test: ast.expr) -> set[str]:
    """Names of which a test asks whether anything is in them: ``if kwargs``, ``if len(kwargs) > 0``."""
    match test:
        case ast.Name(id=name) | ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
            return {name}
        case ast.Compare(left=left, ops=[ast.Gt() | ast.NotEq()], comparators=[ast.Constant(value=0)]):
            return _counted(left)
        case _:
            return set()


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[str]:
    return [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]


def _environment(forward: Func, cls: ClassRef) -> dict[str, Flow]:
    """The parameters of a forward as `Trainer` fills them: labels, and the count in what catches all."""
    env = {
        name: Flow(labels=LABELS.search(name) is not None, count=name == COUNT) for name in _parameters(forward.node)
    }
    env = {**defaults(forward.node), **{name: flow for name, flow in env.items() if flow != NOTHING}}
    env.update({name: Flow(value=Instance(cls, 0)) for name in _parameters(forward.node)[:1]})
    kwarg = forward.node.args.kwarg
    if kwarg is not None:
        env[kwarg.arg] = Flow(count=COUNT not in env)
    return env


def _losses(forward: Func, cls: ClassRef, classes: Classes) -> tuple[LossCall, ...]:
    result = Tracer(classes, cls).run(forward, _environment(forward, cls))
    return tuple(sorted(_returned(result), key=lambda call: call.order))


def _returned(result: Flow) -> frozenset[LossCall]:
    """The losses in what a forward returns: those of its ``loss``, where it has one."""
    loss = result.get("loss")
    own = loss.whole().losses if loss is not None else frozenset()
    return own or result.whole().losses


def _is_module(lineage: Sequence[ClassRef | External]) -> bool:
    """Whether a class is a module: it comes to a class of a library that isn't `object`."""
    return any(isinstance(parent, External) and parent.path not in {"object", "abc.ABC"} for parent in lineage)


def _last(parent: ClassRef | External) -> str:
    """The name of a class of the library; nothing for one of the project."""
    path = parent.path if isinstance(parent, External) else ""
    return path.rpartition(".")[2] if path.startswith("transformers.") else ""


def _is_library(lineage: Sequence[ClassRef | External]) -> bool:
    last = [parent.path if isinstance(parent, External) else parent.name for parent in lineage]
    return any(name.endswith("PreTrainedModel") or name.startswith("transformers.") for name in last)


def _inherited(cls: ClassRef, forward: Func, classes: Classes) -> str | None:
    """The base class that has this forward, if it is a head by itself and in sight."""
    owner = forward.owner
    if owner is None or owner == cls or not _is_library(classes.lineage(owner)):
        return None
    return owner.name


def _flag(cls: ClassRef, classes: Classes) -> Flag | None:
    """`accepts_loss_kwargs`, in the class's body or in its `__init__`."""
    for given in classes.settings(cls, _FLAG):
        if isinstance(given.value, ast.Constant) and isinstance(given.value.value, bool):
            return Flag(_FLAG, given.value.value, _spot(given.owner.module, given.statement))
    return None


def _spot(path: str, node: ast.stmt) -> Spot:
    end = node.end_lineno or node.lineno
    return Spot(path, node.lineno, node.col_offset, end, node.end_col_offset or node.col_offset)


def _def(path: str, node: ast.FunctionDef) -> Spot:
    """The ``def name`` of a function."""
    return Spot(path, node.lineno, node.col_offset, node.lineno, node.col_offset + len(f"def {node.name}".encode()))


def _header(cls: ClassRef) -> Spot:
    """The ``class Name`` of a class statement."""
    node = cls.node
    return Spot(
        cls.module, node.lineno, node.col_offset, node.lineno, node.col_offset + len(f"class {node.name}".encode())
    )
