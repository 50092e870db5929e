"""Calls inside a traced function: followed in the project, known in libraries, or judged by what is handed to them."""

from __future__ import annotations

import ast
import dataclasses
import re
from typing import TYPE_CHECKING

from gafixer.analysis import flow as flows
from gafixer.analysis import tracing_library
from gafixer.analysis.flow import NOTHING, Flow, Honours, LossCall, Maker, join
from gafixer.analysis.tracing_library import Given
from gafixer.analysis.values import ClassRef, Const, External, Func, Instance, LossModule
from gafixer.data.transformers import (
    COUNT,
    DEFAULT_LOSS_TYPE,
    LABELS,
    LOSS_TYPES,
)

if TYPE_CHECKING:
    from gafixer.analysis.spot import Spot
    from gafixer.analysis.tracing import Tracer

__all__ = ["defaults", "evaluate", "loss_type", "member"]

#: Names under which a batch reaches a model without being a target.
_INPUT = re.compile(r"(^|_)(ids|mask|masks|mapping|embeds|features|values|states)$|^logits$")


def evaluate(run: Tracer, node: ast.Call) -> Flow:
    """The result of a call."""
    given = _arguments(run, node)
    spot = run.spot(node)
    match node.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=attr):
            return _super(run, attr, given, spot)
        case ast.Attribute(value=inner, attr=attr):
            base = run.evaluate(inner)
            target = run.attribute(base, attr)
            if target.value is not None and not isinstance(target.value, Const):
                return call(run, target, attr, given, spot)
            if attr == "backward":
                sent = node.args[0] if node.args else inner
                run.sent.append((run.spot(sent), join([base, *given.args])))
                return NOTHING
            return tracing_library.method(base, target, attr, given, spot)
        case ast.Name(id=name):
            return call(run, run.evaluate(node.func), name, given, spot)
        case _:
            return call(run, run.evaluate(node.func), "", given, spot)


def _arguments(run: Tracer, node: ast.Call) -> Given:
    args: list[Flow] = []
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            inner = run.evaluate(arg.value)
            args += inner.parts if inner.parts is not None else [inner.whole()]
        else:
            args.append(run.evaluate(arg))
    keywords: dict[str, Flow] = {}
    rest = NOTHING
    for keyword in node.keywords:
        flow = run.evaluate(keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = flow
            continue
        known = flow.fields or ()
        keywords.update({str(name): value for name, value in known})
        rest = join([rest, dataclasses.replace(flow, fields=None, value=None)])
    return Given(tuple(args), keywords, rest)


def call(run: Tracer, target: Flow, name: str, given: Given, spot: Spot) -> Flow:
    """Call something: of the project it is followed, of a library it is known or judged by its name."""
    match target.value:
        case LossModule() as criterion:
            return tracing_library.criterion(criterion.name, criterion.reduction, given, spot)
        case Func() as func:
            return follow(run, func, given, spot, name)
        case ClassRef() as cls:
            return _construct(run, cls, given, spot)
        case Instance(cls=cls):
            return _call_object(run, cls, name, given, spot)
        case External(path=path):
            return tracing_library.function(path, given, spot)
        case _:
            return tracing_library.unknown(name, target, given, spot)


# -- of the project ------------------------------------------------------------------------------------------------


def follow(run: Tracer, func: Func, given: Given, spot: Spot, name: str = "") -> Flow:
    """Run a function of the project, where something of interest is handed to it."""
    node = func.node
    interesting = given.labels or any(f.whole().losses or isinstance(f.value, LossModule) for f in given.all)
    short = (node.end_lineno or node.lineno) - node.lineno < 40
    if not interesting and not (short and tracing_library.is_loss_name(name)):
        return Flow(count=any(f.count for f in (*given.args, *given.keywords.values())))
    result = run.run(func, bind(run, func, given))
    if len(run.frames) == 1:
        result = flows.through(result, spot)
    if result.whole().losses or not tracing_library.is_loss_name(name) or not given.labels:
        return result
    # A loss function whose parts were not recognized: what it was handed decides.
    honours = Honours.YES if given.count else Honours.NO
    return Flow(losses=frozenset({LossCall(spot, name, honours, Maker.FUNCTION)}))


def bind(run: Tracer, func: Func, given: Given) -> dict[str, Flow]:
    """The parameters of a function as a call gives them."""
    arguments = func.node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    env = defaults(func.node)
    if func.bound is not None and names:
        env[names.pop(0)] = Flow(value=func.bound)
    env.update(zip(names, given.args, strict=False))
    if arguments.vararg is not None:
        env[arguments.vararg.arg] = Flow(parts=given.args[len(names) :])
    named = {*names, *(a.arg for a in arguments.kwonlyargs)}
    for key, flow in given.keywords.items():
        if key in named:
            env[key] = flow
    if given.rest.count and COUNT in named and COUNT not in given.keywords:
        env[COUNT] = Flow(count=True)
    if given.rest.labels:
        env.update({key: Flow(labels=True) for key in named if LABELS.search(key) and key not in given.keywords})
    if arguments.kwarg is not None:
        spare = tuple((key, flow) for key, flow in given.keywords.items() if key not in named)
        inner = dict(spare).get(COUNT, NOTHING).count
        left = COUNT not in named and given.rest.count
        env[arguments.kwarg.arg] = Flow(count=left or inner, labels=given.rest.labels, fields=spare or None)
    return env


def defaults(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> dict[str, Flow]:
    """The parameters that default to a constant other than None."""
    arguments = node.args
    positional = (*arguments.posonlyargs, *arguments.args)
    last = positional[len(positional) - len(arguments.defaults) :]
    pairs = (
        *zip(last, arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    )
    return {
        parameter.arg: Flow(value=Const(default.value))
        for parameter, default in pairs
        if isinstance(default, ast.Constant) and default.value is not None
    }


def _construct(run: Tracer, cls: ClassRef, given: Given, spot: Spot) -> Flow:
    """An object of a project class; of a class that holds results, its entries."""
    if any(f.whole().losses for f in given.all):
        return Flow(fields=tuple(given.keywords.items()), losses=frozenset().union(*(f.losses for f in given.args)))
    return Flow(value=Instance(cls, 0))


def _call_object(run: Tracer, cls: ClassRef, name: str, given: Given, spot: Spot) -> Flow:
    for method in ("forward", "__call__"):
        found = run.classes.method(cls, method)
        if found is not None:
            kept = _targets(given)
            if kept is None:
                return NOTHING
            return follow(run, dataclasses.replace(found, bound=Instance(cls, 0)), kept, spot, "forward")
    return tracing_library.unknown(name, Flow(value=None), given, spot)


def _targets(given: Given) -> Given | None:
    """The arguments of a module's call, those that are inputs freed of their labels; None where no target is left."""
    keywords = {
        key: dataclasses.replace(flow, labels=False) if flow.labels and _INPUT.search(key) else flow
        for key, flow in given.keywords.items()
    }
    kept = Given(given.args, keywords, given.rest)
    return kept if kept.labels or any(f.whole().losses for f in kept.all) else None


def _super(run: Tracer, attr: str, given: Given, spot: Spot) -> Flow:
    cls, owner = run.cls, run.frame.owner
    if cls is not None and owner is not None:
        found = run.classes.method(cls, attr, after=owner)
        if found is not None:
            return follow(run, dataclasses.replace(found, bound=Instance(cls, 0)), given, spot, attr)
    if not given.labels:
        return NOTHING
    honours = Honours.YES if given.count else Honours.NO
    made = frozenset({LossCall(spot, f"super().{attr}", honours, Maker.SUPER)})
    return Flow(losses=made, fields=(("loss", Flow(losses=made)),)) if attr == "forward" else Flow(losses=made)


def member(run: Tracer, cls: ClassRef, attr: str) -> Flow:
    """An attribute of an object: assigned in this run, a method, a field of the class, or assigned in `__init__`."""
    if run.cls == cls and attr in run.heap:
        return run.heap[attr]
    found = run.classes.method(cls, attr)
    if attr == "loss_function" and (found is None or _is_library_base(found.owner)):
        assigned = _assigned(run, cls, attr)
        return (
            assigned
            if assigned.value is not None
            else Flow(value=External(tracing_library.LIBRARY_LOSS + loss_type(run, cls)))
        )
    if found is not None:
        method = dataclasses.replace(found, bound=None if _is_static(found.node) else Instance(cls, 0))
        if _is_property(found.node):
            return run.run(method, bind(run, method, Given((), {}, NOTHING)))
        return Flow(value=method)
    fields = run.classes.fields(cls, attr)
    return (
        run.elsewhere(run.classes.module(fields[-1].owner), fields[-1].value) if fields else _assigned(run, cls, attr)
    )


def _assigned(run: Tracer, cls: ClassRef, attr: str) -> Flow:
    """What ``self.attr`` is by ``__init__``."""
    found = []
    for given in run.classes.attributes(cls, attr)[:4]:
        env = {given.self: Flow(value=Instance(cls, 0))} if given.self is not None else {}
        found.append(run.elsewhere(run.classes.module(given.owner), given.value, env))
    return join(found)


def _is_library_base(owner: ClassRef | None) -> bool:
    return owner is not None and owner.name == "PreTrainedModel"


def _decorators(node: ast.AST) -> list[str]:
    return [ast.unparse(d) for d in getattr(node, "decorator_list", ())]


def _is_property(node: ast.AST) -> bool:
    return any(d.endswith("property") for d in _decorators(node))


def _is_static(node: ast.AST) -> bool:
    return "staticmethod" in _decorators(node)


def loss_type(run: Tracer, cls: ClassRef) -> str:
    """The key of `LOSS_MAPPING` that a class means: its `loss_type`, else what its name holds."""
    fields = run.classes.fields(cls, "loss_type")
    said = run.evaluate(fields[-1].value) if fields else _assigned(run, cls, "loss_type")
    name = said.value.value if isinstance(said.value, Const) and isinstance(said.value.value, str) else cls.name
    found = [(name.find(key), order, key) for order, key in enumerate(LOSS_TYPES) if key in name]
    return min(found)[2] if found else DEFAULT_LOSS_TYPE
