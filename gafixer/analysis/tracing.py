"""Follows labels and the window's count through a forward or a `compute_loss`, statement by statement.

A small machine beside the interpreter of `gafixer.analysis.interpreter`: it knows nothing of windows, and a value is
no more than what it carries. So it can run every head of a large library.
"""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gafixer.analysis import tracing_calls
from gafixer.analysis.flow import NOTHING, Flow, join
from gafixer.analysis.names import Assigned
from gafixer.analysis.values import ClassRef, Const, External, Func, Instance, ModuleRef, Spot
from gafixer.data.transformers import COUNT, LABELS

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
        self.sent: list[Flow] = []
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
            self.block(func.node.body)
        finally:
            self.frames.pop()
            self.active.pop()
        return join(frame.returned)

    # -- statements ----------------------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> bool:
        """Run statements; whether control reaches what follows them."""
        for statement in body:
            self.fuel -= 1
            if self.fuel < 0:
                return True
            if not self._statement(statement):
                return False
        return True

    def _statement(self, node: ast.stmt) -> bool:
        match node:
            case ast.Return(value=value):
                if value is not None:
                    self.frame.returned.append(self.evaluate(value))
                return False
            case ast.Raise() | ast.Continue() | ast.Break():
                return False
            case ast.If(test=test, body=body, orelse=orelse):
                return self._if(self.decide(test), body, orelse)
            case ast.For(target=target, iter=iterable) | ast.AsyncFor(target=target, iter=iterable):
                self.assign(target, self.evaluate(iterable).whole())
                self._maybe(node.body)
                self._maybe(node.orelse)
            case ast.While():
                self._maybe(node.body)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    entered = self.evaluate(item.context_expr)
                    if item.optional_vars is not None:
                        self.assign(item.optional_vars, entered)
                return self.block(body)
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                reached = self.block(body) and self.block(orelse)
                for handler in handlers:
                    self._maybe(handler.body)
                return self.block(final) and reached
            case _:
                self._simple(node)
        return True

    def _simple(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=value):
                self.evaluate(value)
            case ast.Assign(targets=targets, value=value):
                result = self.evaluate(value)
                for target in targets:
                    self.assign(target, result)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self.assign(target, self.evaluate(value))
            case ast.AugAssign(target=target, op=op, value=value):
                self.assign(target, self._combined(op, self.evaluate(target), self.evaluate(value)))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self.frame.env[name] = Flow(value=self._closure(node))
            case _:
                pass

    def _closure(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Func:
        self._around[id(node)] = self.frame
        return Func(self.frame.module.path, node, id(node), owner=self.frame.owner)

    def _if(self, known: bool | None, body: list[ast.stmt], orelse: list[ast.stmt]) -> bool:
        if known is not None:
            return self.block(body if known else orelse)
        before = dict(self.frame.env), dict(self.heap)
        first = self.block(body)
        after = self.frame.env, self.heap
        self.frame.env, self.heap = dict(before[0]), dict(before[1])
        second = self.block(orelse)
        if first and second:
            self._merge(*after)
        elif first:
            self.frame.env, self.heap = after
        return first or second

    def _maybe(self, body: list[ast.stmt]) -> None:
        """A block that may not run."""
        self._if(None, body, [])

    def _merge(self, env: dict[str, Flow], heap: dict[str, Flow]) -> None:
        for mine, other in ((self.frame.env, env), (self.heap, heap)):
            for name, flow in other.items():
                mine[name] = join([flow, mine[name]]) if name in mine else flow

    def assign(self, target: ast.expr, flow: Flow) -> None:
        """Bind a target."""
        match target:
            case ast.Name(id=name):
                self.frame.env[name] = flow
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                parts = flow.parts if flow.parts is not None and len(flow.parts) == len(elements) else None
                for index, element in enumerate(elements):
                    self.assign(element, parts[index] if parts else self._unpacked(flow, index))
            case ast.Starred(value=inner):
                self.assign(inner, flow.whole())
            case ast.Attribute(value=ast.Name(id=name), attr=attr):
                if isinstance(self.frame.env.get(name, NOTHING).value, Instance):
                    self.heap[attr] = flow
            case ast.Subscript(value=ast.Name(id=name), slice=key):
                base = self.frame.env.get(name, NOTHING)
                self.frame.env[name] = _with_entry(base, self._constant(key), flow)
            case _:
                pass

    @staticmethod
    def _unpacked(flow: Flow, index: int) -> Flow:
        """An element of something that is no known tuple: of a model's output the first is the loss."""
        if flow.fields is not None and (loss := flow.get("loss")) is not None:
            return loss if index == 0 else NOTHING
        return flow.whole()

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
                return self._combined(op, self.evaluate(left), self.evaluate(right))
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
                return Flow(value=self._closure(node))
            case ast.NamedExpr(target=target, value=value):
                result = self.evaluate(value)
                self.assign(target, result)
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

    def _constant(self, node: ast.expr) -> object:
        flow = self.evaluate(node)
        return flow.value.value if isinstance(flow.value, Const) else None

    def _subscript(self, base: Flow, key_node: ast.expr) -> Flow:
        key = self._constant(key_node)
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
            elif isinstance(name := self._constant(key), str):
                flows.append(_with_entry(NOTHING, name, flow))
            else:
                flows.append(flow.whole())
        return dataclasses.replace(join(flows), value=None)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Flow:
        source: list[Flow] = []
        for generator in node.generators:
            drawn = self.evaluate(generator.iter)
            source.append(drawn)
            self.assign(generator.target, drawn.whole())
        if isinstance(node, ast.DictComp):
            return dataclasses.replace(join(source), value=None)
        return dataclasses.replace(self.evaluate(node.elt).whole(), value=None)

    def _combined(self, op: ast.operator, left: Flow, right: Flow) -> Flow:
        """Arithmetic: a loss that meets the count is divided by it."""
        if isinstance(op, ast.Div | ast.FloorDiv | ast.Mult):
            return tracing_calls.scaled(left, right, divides=not isinstance(op, ast.Mult))
        both = join([left, right])
        if isinstance(op, ast.Add) and left.parts is not None and right.parts is not None:
            return Flow(parts=left.parts + right.parts)
        if isinstance(op, ast.Add) and left.parts is not None:
            return Flow(parts=(*left.parts, right.whole()))
        if isinstance(op, ast.BitOr) and (left.fields or right.fields):
            return both
        return dataclasses.replace(both.whole(), value=None)


def _with_entry(base: Flow, key: object, flow: Flow) -> Flow:
    """A dict with one more entry; whoever holds the count or labels under a name carries them."""
    entries = tuple((name, old) for name, old in base.fields or () if name != key)
    return dataclasses.replace(
        base,
        count=base.count or (key == COUNT and flow.count),
        labels=base.labels or flow.labels,
        fields=(*entries, (str(key), flow)),
    )


def entry_of(base: Flow, key: object) -> Flow:
    """An entry of a dict that isn't known: by its name it is the count, labels, a loss, or neither."""
    if not isinstance(key, str):
        return dataclasses.replace(base.whole(), value=None)
    if key == COUNT:
        return Flow(count=base.count)
    if key == "loss":
        return Flow(losses=base.losses)
    return Flow(labels=base.labels and LABELS.search(key) is not None)
