"""Follows labels and the window's count through a forward or a `compute_loss`, statement by statement.

A small machine beside the interpreter of `gafixer.analysis.interpreter`: it knows nothing of windows, and a value is
no more than what it carries. So it can run every head of a large library.
"""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gafixer.analysis import tracing_calls, tracing_library, tracing_statements
from gafixer.analysis.flow import NOTHING, Flow, entry_of, join, with_entry
from gafixer.analysis.names import Assigned
from gafixer.analysis.spot import Spot
from gafixer.analysis.values import ClassRef, Const, External, Func, Instance, ModuleRef
from gafixer.data.transformers import COUNT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gafixer.analysis.classes import Classes
    from gafixer.analysis.source import Module

__all__ = ["Frame", "Tracer"]

#: Nodes that one head may cost, and calls inside calls that are followed.
_FUEL = 20_000
_DEEPEST_CALL = 7
_DEEPEST_EXPRESSION = 60

#: Attributes of a tensor that say nothing of what is in it.
_SHAPE = frozenset({"shape", "device", "dtype", "ndim", "config", "size"})


@dataclass(slots=True)
class Frame:
    """The names of one running function, and those of the function that it stands in."""

    module: Module
    env: dict[str, Flow]
    owner: ClassRef | None = None
    outer: Frame | None = None
    returned: list[Flow] = field(default_factory=list)


class Tracer:
    """One run over one function of one class.

    `heap` holds what the run assigned to attributes of its object, `sent` what went backward.
    """

    def __init__(self, classes: Classes, cls: ClassRef | None) -> None:
        self.classes = classes
        self.names = classes.names
        self.cls = cls
        self.heap: dict[str, Flow] = {}
        self.sent: list[tuple[Spot, Flow]] = []
        self.frames: list[Frame] = []
        self.active: list[int] = []
        self._around: dict[int, Frame] = {}
        self.fuel = _FUEL
        self._level = 0

    @property
    def frame(self) -> Frame:
        """The running function."""
        return self.frames[-1]

    def spot(self, node: ast.expr | ast.stmt) -> Spot:
        """Where a node of the running function stands."""
        end = node.end_lineno or node.lineno
        return Spot(self.frame.module.path, node.lineno, node.col_offset, end, node.end_col_offset or node.col_offset)

    def run(self, func: Func, env: dict[str, Flow]) -> Flow:
        """Run a function whose parameters are bound already; what it returns, all ways out together."""
        module = self.names.modules.get(func.module)
        if module is None or id(func.node) in self.active or len(self.frames) > _DEEPEST_CALL:
            return NOTHING
        frame = Frame(module, env, func.owner, self._around.get(id(func.node)))
        self.frames.append(frame)
        self.active.append(id(func.node))
        try:
            if isinstance(func.node, ast.Lambda):
                return self.evaluate(func.node.body)
            tracing_statements.block(self, func.node.body)
        finally:
            self.frames.pop()
            self.active.pop()
        return join(frame.returned)

    def closure(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Func:
        """A function that is defined inside the running one."""
        self._around[id(node)] = self.frame
        return Func(self.frame.module.path, node, id(node), owner=self.frame.owner)

    # -- conditions ----------------------------------------------------------------------------------------------

    def decide(self, test: ast.expr) -> bool | None:
        """Whether a condition holds where a window's count and labels were handed over, in training."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                known = self.decide(operand)
                return None if known is None else not known
            case ast.BoolOp(op=op, values=values):
                known_all = [self.decide(value) for value in values]
                stop = isinstance(op, ast.Or)
                if stop in known_all:
                    return stop
                return None if None in known_all else not stop
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._compare(left, op, right)
            case ast.Attribute(attr="training" | "model_accepts_loss_kwargs"):
                return True
            case _:
                flow = self.evaluate(test)
                if isinstance(flow.value, Const) and isinstance(flow.value.value, bool):
                    return flow.value.value
                return True if flow.count else None

    def _compare(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> bool | None:
        flow, other = self.evaluate(left), self.evaluate(right)
        if isinstance(other.value, Const) and other.value.value is None and isinstance(op, ast.Is | ast.IsNot):
            given = flow.count or (flow.labels and isinstance(left, ast.Name))
            return isinstance(op, ast.IsNot) if given else None
        if isinstance(op, ast.In | ast.NotIn) and flow.value == Const(COUNT) and other.whole().count:
            return isinstance(op, ast.In)
        if isinstance(flow.value, Const) and isinstance(other.value, Const) and isinstance(op, ast.Eq | ast.NotEq):
            return (flow.value == other.value) is isinstance(op, ast.Eq)
        return None

    # -- expressions ---------------------------------------------------------------------------------------------

    def evaluate(self, node: ast.expr | None) -> Flow:
        """What an expression carries."""
        self.fuel -= 1
        if node is None or self.fuel < 0 or self._level > _DEEPEST_EXPRESSION:
            return NOTHING
        self._level += 1
        try:
            return self._evaluate(node)
        finally:
            self._level -= 1

    def _evaluate(self, node: ast.expr) -> Flow:
        match node:
            case ast.Name(id=name):
                return self.name(name)
            case ast.Call():
                return tracing_calls.evaluate(self, node)
            case ast.Attribute(value=inner, attr=attr):
                return self.attribute(self.evaluate(inner), attr)
            case ast.Constant(value=value):
                return Flow(value=Const(value))
            case ast.Subscript(value=inner, slice=key):
                return self._subscript(self.evaluate(inner), key)
            case ast.BinOp(left=left, op=op, right=right):
                return self.combined(op, self.evaluate(left), self.evaluate(right), self.spot(node))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                known = self.decide(test)
                if known is not None:
                    return self.evaluate(body if known else orelse)
                return join([self.evaluate(body), self.evaluate(orelse)])
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return self._sequence(elements)
            case ast.Dict(keys=keys, values=values):
                return self._dict(keys, values)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node)
            case ast.Lambda():
                return Flow(value=self.closure(node))
            case ast.NamedExpr(target=target, value=value):
                result = self.evaluate(value)
                tracing_statements.assign(self, target, result)
                return result
            case ast.JoinedStr():
                return NOTHING
            case _:
                children = [self.evaluate(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
                return dataclasses.replace(join(children).whole(), value=None)

    def name(self, name: str) -> Flow:
        """A name of the running function or of its module."""
        frame: Frame | None = self.frame
        while frame is not None:
            if name in frame.env:
                return frame.env[name]
            frame = frame.outer
        found = self.names.lookup(self.frame.module, name)
        if isinstance(found, Assigned):
            return self.elsewhere(found.module, found.node)
        return Flow(value=found) if found is not None else NOTHING

    def elsewhere(self, module: Module, node: ast.expr, env: dict[str, Flow] | None = None) -> Flow:
        """An expression of another scope: a module's or a class's own statement, or `__init__`."""
        if id(node) in self.active or len(self.frames) > _DEEPEST_CALL:
            return NOTHING
        self.frames.append(Frame(module, env or {}))
        self.active.append(id(node))
        try:
            return self.evaluate(node)
        finally:
            self.frames.pop()
            self.active.pop()

    def attribute(self, base: Flow, attr: str) -> Flow:
        """``base.attr``."""
        match base.value:
            case Instance(cls=cls):
                return tracing_calls.member(self, cls, attr)
            case External() | ModuleRef() as value:
                return Flow(value=self.names.member(value, attr))
            case _:
                pass
        if attr in _SHAPE:
            return NOTHING
        if base.fields is not None:
            return base.get(attr) or NOTHING
        return dataclasses.replace(base.whole(), value=None) if attr != "logits" else NOTHING

    def constant(self, node: ast.expr) -> object:
        """The literal that an expression is, or None."""
        flow = self.evaluate(node)
        return flow.value.value if isinstance(flow.value, Const) else None

    def _subscript(self, base: Flow, key_node: ast.expr) -> Flow:
        key = self.constant(key_node)
        if base.parts is not None and isinstance(key, int) and -len(base.parts) <= key < len(base.parts):
            return base.parts[key]
        if base.fields is not None:
            if (entry := base.get(key)) is not None:
                return entry
            if key == 0 and (loss := base.get("loss")) is not None:
                return loss
        return entry_of(base, key)

    def _sequence(self, elements: list[ast.expr]) -> Flow:
        parts: list[Flow] = []
        for element in elements:
            if isinstance(element, ast.Starred):
                inner = self.evaluate(element.value)
                parts += inner.parts if inner.parts is not None else [inner.whole()]
            else:
                parts.append(self.evaluate(element))
        return Flow(parts=tuple(parts))

    def _dict(self, keys: Iterable[ast.expr | None], values: list[ast.expr]) -> Flow:
        flows: list[Flow] = []
        for key, value in zip(keys, values, strict=True):
            flow = self.evaluate(value)
            if key is None:
                flows.append(flow)
            elif isinstance(name := self.constant(key), str):
                flows.append(with_entry(NOTHING, name, flow))
            else:
                flows.append(flow.whole())
        return dataclasses.replace(join(flows), value=None)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Flow:
        source: list[Flow] = []
        for generator in node.generators:
            drawn = self.evaluate(generator.iter)
            source.append(drawn)
            tracing_statements.assign(self, generator.target, drawn.whole())
        if isinstance(node, ast.DictComp):
            return dataclasses.replace(join(source), value=None)
        return dataclasses.replace(self.evaluate(node.elt).whole(), value=None)

    def combined(self, op: ast.operator, left: Flow, right: Flow, spot: Spot) -> Flow:
        """Arithmetic: a loss that meets the count is divided by it."""
        if isinstance(op, ast.Div | ast.FloorDiv | ast.Mult):
            return tracing_library.scaled(left, right, spot, divides=not isinstance(op, ast.Mult))
        both = join([left, right])
        if isinstance(op, ast.Add) and left.parts is not None and right.parts is not None:
            return Flow(parts=left.parts + right.parts)
        if isinstance(op, ast.Add) and left.parts is not None:
            return Flow(parts=(*left.parts, right.whole()))
        if isinstance(op, ast.BitOr) and (left.fields or right.fields):
            return both
        return dataclasses.replace(both.whole(), value=None)
