"""What people put in the place of a `Trainer`'s own parts: methods, a loss function, an entry of `LOSS_MAPPING`."""

from __future__ import annotations

import ast
import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis import uses
from gafixer.analysis.classes import Classes
from gafixer.analysis.evidence import Surroundings
from gafixer.analysis.flow import Flow, Honours, LossCall, Maker
from gafixer.analysis.heads import Flag
from gafixer.analysis.names import Names
from gafixer.analysis.spot import Spot
from gafixer.analysis.tracing import Tracer
from gafixer.analysis.values import ClassRef, Const, External, Func, Instance
from gafixer.data.transformers import COUNT, TRAINER_FLAGS, TRAINER_METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gafixer.analysis.project import Project
    from gafixer.analysis.site import Evidence
    from gafixer.analysis.source import Module
    from gafixer.findings import Place

__all__ = ["Kind", "OverrideSite", "is_trainer", "overrides", "told_to_divide"]

_OTHER_TRAINERS = re.compile(r"lightning|\bpl\.|composer|accelerate|ignite|fairseq|catalyst")
_FUNCTIONS = re.compile(r"compute_loss_func|LOSS_MAPPING|\.loss_function\b")


class Kind(enum.Enum):
    """What is overridden."""

    METHOD = "a method of Trainer"
    LOSS_FUNCTION = "compute_loss_func"
    LOSS_ENTRY = "an entry of LOSS_MAPPING"


@dataclass(frozen=True, slots=True)
class OverrideSite:
    """An override.

    `name` is what is overridden, `owner` the class that does it. `taken` is how the count arrives: the name of a
    parameter, ``**`` and the name of the catch-all one, or None. `missing` are the parameters that it can't take, with
    the release that began to hand them over. `mentions` says that the count's name is read in the body. `losses` are
    those that it returns, or sends backward; `sends` says that it goes backward by itself, `uncounted` that it hands
    `Trainer` no count, `divides` that it divides by the steps itself. `flags` are switches that say who divides; those
    of `lost` are set before `super().__init__` sets them anew. `varies` is where the code shows that counts vary,
    `heads` are the library's that the file names.
    """

    kind: Kind
    name: str
    owner: str | None
    spot: Spot
    taken: str | None
    missing: tuple[tuple[str, str], ...]
    mentions: bool
    losses: tuple[LossCall, ...]
    sends: bool
    uncounted: bool
    divides: bool
    flags: tuple[Flag, ...]
    lost: tuple[Flag, ...]
    varies: Evidence | None
    heads: tuple[str, ...]
    path: str
    place: Callable[[Spot], Place]

    @property
    def undivided(self) -> bool:
        """Whether a switch says, whatever happens, that `Trainer` shall divide by the steps."""
        return any(not flag.value and flag.always for flag in self.flags)

    @property
    def title(self) -> str:
        """The override as people name it."""
        return f"{self.owner}.{self.name}" if self.owner else self.name

    def own(self, spot: Spot | None) -> Spot:
        """The spot where a finding about `spot` belongs."""
        return spot if spot is not None and spot.path == self.path else self.spot


def overrides(module: Module, project: Project) -> list[OverrideSite]:
    """The overrides that a module defines."""
    classes = Classes(Names(project, module))
    found = []
    for node in module.statements():
        if isinstance(node, ast.ClassDef) and any(name in _methods(node) for name in TRAINER_METHODS):
            cls = ClassRef(module.path, node.name, node)
            if is_trainer(cls, classes):
                found += [_method(cls, name, module, classes) for name in TRAINER_METHODS if name in _methods(node)]
    if _FUNCTIONS.search(module.source):
        found += list(_functions(module, classes))
    return found


def _methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}


def is_trainer(cls: ClassRef, classes: Classes) -> bool:
    """Whether a class is a Transformers Trainer, or mixed into one."""
    lineage = classes.lineage(cls)
    libraries = [parent.path for parent in lineage if isinstance(parent, External)]
    if any(_OTHER_TRAINERS.search(path) for path in libraries):
        return False
    if any(path.rpartition(".")[2].endswith("Trainer") for path in libraries):
        return True
    own = [parent for parent in lineage if isinstance(parent, ClassRef)]
    if len(own) == len(lineage) and any("train" in _methods(parent.node) for parent in own):
        return False  # it trains by itself
    compute_loss = _methods(cls.node).get("compute_loss")
    return compute_loss is not None and {"model", "inputs"} <= {a.arg for a in compute_loss.args.args}


def told_to_divide(cls: ClassRef, classes: Classes, module: Module) -> bool:
    """Whether a Trainer of the user's surely divides by the steps what `compute_loss` returns.

    A switch says that the model doesn't, and no `compute_loss_func` says that somebody else does.
    """
    held, _ = _flags(cls, classes, module)
    own = (parent for parent in classes.lineage(cls) if isinstance(parent, ClassRef))
    return any(not flag.value and flag.always for flag in held) and not any(_takes_over(parent) for parent in own)


def _takes_over(cls: ClassRef) -> bool:
    """Whether a class hands `Trainer` a `compute_loss_func`: what it is doesn't matter for who divides."""
    return any(
        isinstance(node, ast.keyword)
        and node.arg == "compute_loss_func"
        and not (isinstance(node.value, ast.Constant) and node.value.value is None)
        and not (isinstance(node.value, ast.Name) and node.value.id == node.arg)  # only handed on
        for node in ast.walk(cls.node)
    )


def _method(cls: ClassRef, name: str, module: Module, classes: Classes) -> OverrideSite:
    node = _methods(cls.node)[name]
    tracer = Tracer(classes, cls)
    arguments = [*node.args.posonlyargs, *node.args.args]
    env: dict[str, Flow] = {a.arg: Flow(labels=a.arg in {"inputs", "batch", "batch_samples"}) for a in arguments}
    env.update({a.arg: Flow(count=True) for a in (*arguments, *node.args.kwonlyargs) if a.arg == COUNT})
    env.update({a.arg: Flow(value=Const(False)) for a in arguments if a.arg == "return_outputs"})
    env.update({a.arg: Flow(value=Instance(cls, 0)) for a in arguments[:1]})
    if node.args.kwarg is not None:
        env[node.args.kwarg.arg] = Flow(count=COUNT not in env)
    if node.args.vararg is not None:
        env[node.args.vararg.arg] = Flow(count=COUNT not in env)
    result = tracer.run(Func(module.path, node, id(node), owner=cls), env)
    losses = _losses(result) if name == "compute_loss" else _sent(node, tracer, module)
    flags, lost = _flags(cls, classes, module)
    return _site(Kind.METHOD, name, cls.name, node, losses, module, classes, flags, lost)


def _sent(node: ast.FunctionDef, tracer: Tracer, module: Module) -> frozenset[LossCall]:
    """The losses that a `training_step` sends backward, unless it steps too: then its windows are its own."""
    body = _body(node, module)
    if re.search(r"optim\w*\.step\(", body):
        return frozenset()
    found: set[LossCall] = set()
    for spot, flow in tracer.sent:
        whole = flow.whole()
        found |= whole.losses
        if not whole.losses and not whole.count and COUNT not in body:
            found.add(LossCall(spot, "loss", Honours.NO, Maker.UNSEEN))
    return frozenset(found)


def _body(node: ast.FunctionDef, module: Module) -> str:
    return "\n".join(module.line(row) for row in range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1))


def _hands_none(node: ast.FunctionDef) -> bool:
    """Whether a `get_batch_samples` returns its microbatches with no count, whatever happens."""
    returned = [n.value for n in ast.walk(node) if isinstance(n, ast.Return)]
    return bool(returned) and all(
        isinstance(value, ast.Tuple) and isinstance(value.elts[-1], ast.Constant) and value.elts[-1].value is None
        for value in returned
    )


def _losses(result: Flow) -> frozenset[LossCall]:
    """The losses that a `compute_loss` returns, alone or before the outputs."""
    return result.parts[0].whole().losses if result.parts else result.whole().losses


def _site(
    kind: Kind,
    name: str,
    owner: str | None,
    node: ast.FunctionDef,
    losses: frozenset[LossCall],
    module: Module,
    classes: Classes,
    flags: tuple[Flag, ...] = (),
    lost: tuple[Flag, ...] = (),
) -> OverrideSite:
    names = {a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    kwarg = node.args.kwarg
    taken = COUNT if COUNT in names else f"**{kwarg.arg}" if kwarg is not None else None
    if taken is None and node.args.vararg is not None:
        taken = f"*{node.args.vararg.arg}"
    wanted = TRAINER_METHODS.get(name, ()) if kind is Kind.METHOD else ((COUNT, "4.46"),)
    body = _body(node, module)
    kept = re.sub(r"^\s*return\b.*", "", body, flags=re.MULTILINE) if name == "training_step" else body
    catches = kwarg.arg if kwarg is not None else node.args.vararg.arg if node.args.vararg is not None else None
    return OverrideSite(
        kind=kind,
        name=name,
        owner=owner,
        spot=_header(module, node),
        taken=taken,
        missing=tuple(w for w in wanted if w[0] not in names and not _catches(node, name)),
        mentions=COUNT in body or (catches is not None and re.search(rf"\*\*?{catches}\b", body) is not None),
        losses=tuple(sorted(losses, key=lambda call: call.order)),
        sends=name == "training_step" and bool(losses),
        uncounted=name == "get_batch_samples" and _hands_none(node),
        divides=re.search(r"/=?\s*self\.(args|current)\W*\w*gradient_accumulation_steps", kept) is not None,
        flags=flags,
        lost=lost,
        varies=_varies(module, classes),
        heads=uses.library_heads(module),
        path=module.path,
        place=lambda spot: classes.names.modules.get(spot.path, module).place(spot),
    )


def _varies(module: Module, classes: Classes) -> Evidence | None:
    others = [other for other in classes.names.modules.values() if other is not module]
    found = Surroundings([module, *others]).varies()
    return found[0][2] if found else None


def _catches(node: ast.FunctionDef, name: str) -> bool:
    """Whether further arguments are caught: `Trainer` hands `compute_loss` its count by name, the others by place."""
    return node.args.kwarg is not None if name == "compute_loss" else node.args.vararg is not None or _roomy(node, name)


def _roomy(node: ast.FunctionDef, name: str) -> bool:
    """Whether there are as many places as `Trainer` fills: a parameter may have another name."""
    places = {"training_step": 4, "get_batch_samples": 4}
    return len(node.args.posonlyargs) + len(node.args.args) >= places.get(name, 99)


def _header(module: Module, node: ast.FunctionDef) -> Spot:
    """From ``def`` to the line that ends the signature."""
    row = max(node.lineno, node.body[0].lineno - 1)
    if row == node.lineno or row - node.lineno > 12:
        return Spot(module.path, node.lineno, node.col_offset, node.lineno, len(module.line(node.lineno).encode()))
    return Spot(module.path, node.lineno, node.col_offset, row, len(module.line(row).encode()))


def _flags(cls: ClassRef, classes: Classes, module: Module) -> tuple[tuple[Flag, ...], tuple[Flag, ...]]:
    """The switches that hold, and those that `super().__init__` overwrites."""
    held: list[Flag] = []
    lost: list[Flag] = []
    for name in TRAINER_FLAGS:
        for given in classes.settings(cls, name):
            if not isinstance(given.value, ast.Constant) or not isinstance(given.value.value, bool):
                continue
            node = given.statement
            spot = Spot(
                given.owner.module, node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0
            )
            early = name == "model_accepts_loss_kwargs" and (given.self is None or _before_super(given.owner, node))
            (lost if early else held).append(Flag(name, given.value.value, spot, given.always))
    for match in re.finditer(r"^[ \t]*(?!self\b)\w+\.(\w+)[ \t]*=[ \t]*(True|False)", module.source, re.MULTILINE):
        if match[1] in TRAINER_FLAGS:
            row = module.source.count("\n", 0, match.start()) + 1
            held.append(
                Flag(match[1], match[2] == "True", Spot(module.path, row, 0, row, len(module.line(row).encode())))
            )
    return tuple(held), tuple(lost)


def _before_super(cls: ClassRef, node: ast.stmt) -> bool:
    """Whether a statement of `__init__` stands before the call of the base class's, which sets the switch anew."""
    init = _methods(cls.node).get("__init__")
    calls = [
        part.lineno
        for part in ast.walk(init or cls.node)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "__init__"
    ]
    return bool(calls) and node.lineno < max(calls)


# -- functions -----------------------------------------------------------------------------------------------------


def _functions(module: Module, classes: Classes) -> Iterator[OverrideSite]:
    seen: set[int] = set()
    for kind, value in _given(module):
        func = classes.names.dotted(module, value)
        if not isinstance(func, Func) or not isinstance(func.node, ast.FunctionDef) or func.module != module.path:
            continue
        if id(func.node) not in seen:
            seen.add(id(func.node))
            losses = _losses(Tracer(classes, None).run(func, _loss_environment(func.node)))
            yield _site(kind, func.node.name, None, func.node, losses, module, classes)


def _loss_environment(node: ast.FunctionDef) -> dict[str, Flow]:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    env = {a.arg: Flow(labels=re.search("label|target", a.arg) is not None, count=a.arg == COUNT) for a in arguments}
    if node.args.kwarg is not None:
        env[node.args.kwarg.arg] = Flow(count=COUNT not in env)
    return env


def _given(module: Module) -> Iterator[tuple[Kind, ast.expr]]:
    """Functions that are given to a Trainer, or put into `LOSS_MAPPING`."""
    for statement in module.statements():
        for node in ast.walk(statement):
            match node:
                case ast.keyword(arg="compute_loss_func", value=value):
                    yield Kind.LOSS_FUNCTION, value
                case ast.Assign(targets=[ast.Subscript(value=ast.Name(id="LOSS_MAPPING"))], value=value):
                    yield Kind.LOSS_ENTRY, value
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="LOSS_MAPPING"), attr="update"), args=[ast.Dict(values=values)]
                ):
                    for value in values:
                        yield Kind.LOSS_ENTRY, value
                case ast.Assign(targets=[ast.Attribute(attr="loss_function")], value=ast.Name() as value):
                    yield Kind.LOSS_ENTRY, value
                case _:
                    pass
