"""Runs training code on symbolic values: statements in order, branches both ways, loops once, calls followed.

What comes out is a list of events, each with the frames around it: loops, branches, ``with`` blocks, calls. Nothing
here knows what a window is; see `gafixer.analysis.windows`.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
from typing import TYPE_CHECKING

from gafixer.analysis import algebra, calls, expressions, loops
from gafixer.analysis.events import Branch, Call, Event, EventKind, Frame, Framework, Loop, Suspended, Within
from gafixer.analysis.names import Names
from gafixer.analysis.values import (
    OPAQUE,
    Attr,
    Called,
    Choice,
    ClassRef,
    Const,
    Element,
    Func,
    Instance,
    Item,
    Listing,
    Logic,
    LogicOp,
    Loops,
    Mapping,
    Poly,
    Sequence,
    Spot,
    Sym,
    Term,
    Value,
    depth,
)

from gafixer.data.frameworks import STEPS_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence as Many

    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Module

__all__ = ["Flow", "Interpreter", "Scope"]

#: Nodes that one root may cost. Beyond it everything is opaque: no code worth a finding needs more.
FUEL = 60_000
#: Calls inside calls that are followed.
DEEPEST_CALL = 9
#: Expressions nested deeper than this are opaque values.
DEEPEST_EXPRESSION = 100


class Flow(enum.Enum):
    """Whether control reaches the next statement."""

    NEXT = "next"
    STOP = "stop"


@dataclasses.dataclass(slots=True)
class Scope:
    """The names of one function call. `assigned` holds the loops around each name's first assignment."""

    module: Module
    env: dict[str, Value]
    owner: ClassRef | None = None
    assigned: dict[str, Loops] = dataclasses.field(default_factory=dict)
    returned: list[Value] = dataclasses.field(default_factory=list)
    yielded: list[Value] = dataclasses.field(default_factory=list)
    outer: dict[str, Value] = dataclasses.field(default_factory=dict)


class Interpreter:
    """One run over one root. Public attributes are the machine's state; the other modules of the package drive it."""

    def __init__(self, project: Project, module: Module) -> None:
        self.names = Names(project, module)
        self.module = module
        self.heap: dict[tuple[int, str], Value] = {}
        self.heap_assigned: dict[tuple[int, str], Loops] = {}
        self.frames: list[Frame] = []
        self.events: list[Event] = []
        self.scopes: list[Scope] = []
        self.active: list[int] = []
        self.defined: dict[int, Func] = {}
        self.entered: set[int] = set()
        self.fuel = FUEL
        self.level = 0
        self._ids = 0

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def scope(self) -> Scope:
        """The scope of the running function."""
        return self.scopes[-1]

    @property
    def loops(self) -> Loops:
        """Ids of the loops around the running statement."""
        return tuple(f.id for f in self.frames if isinstance(f, Loop))

    def fresh(self) -> int:
        """A new id."""
        self._ids += 1
        return self._ids

    def spot(self, node: ast.expr | ast.stmt) -> Spot:
        """Where a node of the running function stands."""
        return Spot(
            self.scope.module.path,
            node.lineno,
            node.col_offset,
            node.end_lineno or node.lineno,
            node.end_col_offset or node.col_offset,
        )

    def emit(
        self,
        kind: EventKind,
        spot: Spot,
        value: Value | None = None,
        subject: Value | None = None,
        framework: Framework = Framework.TORCH,
    ) -> None:
        """Something happened here."""
        self.events.append(Event(kind, spot, tuple(self.frames), len(self.events), value, subject, framework))

    # -- running -------------------------------------------------------------------------------------------------

    def run_function(self, func: Func, args: Many[Value], keywords: dict[str, Value]) -> Value:
        """Call a function of the project: its body runs here and now, its events are the caller's."""
        node = func.node
        module = self.names.modules.get(func.module)
        if module is None or id(node) in self.active or len(self.scopes) > DEEPEST_CALL:
            return OPAQUE
        env = calls.bind(self, func, args, keywords)
        scope = Scope(module, env, func.owner, {name: self.loops for name in env}, outer=dict(func.closure))
        self.scopes.append(scope)
        self.active.append(id(node))
        self.entered.add(id(node))
        kept = len(self.frames)
        if calls.without_gradient(self, node):
            self.frames.append(Suspended("no_grad"))
        try:
            if isinstance(node, ast.Lambda):
                return self.evaluate(node.body)
            self.block(node.body)
        finally:
            self.scopes.pop()
            self.active.pop()
            del self.frames[kept:]
        if scope.yielded:
            return Listing(algebra.choose(scope.yielded))
        return algebra.choose(scope.returned) if scope.returned else Const(None)

    def evaluate(self, node: ast.expr | None) -> Value:
        """The value of an expression."""
        if node is None:
            return Const(None)
        self.fuel -= 1
        if self.fuel < 0 or self.level > DEEPEST_EXPRESSION:
            return OPAQUE
        self.level += 1
        try:
            return expressions.evaluate(self, node)
        finally:
            self.level -= 1

    def attribute(self, base: Value, attr: str) -> Value:
        """``base.attr``."""
        return expressions.attribute(self, base, attr)

    def new_scope(self, module: Module) -> Scope:
        """An empty scope of a module's top level."""
        return Scope(module, {})

    def block(self, body: list[ast.stmt]) -> Flow:
        """Run statements; a branch that left early guards what follows it."""
        kept = len(self.frames)
        flow = Flow.NEXT
        for statement in body:
            if self.fuel < 0:
                break
            flow, guard = self.statement(statement)
            if flow is Flow.STOP:
                break
            if guard is not None:
                self.frames.append(guard)
        del self.frames[kept:]
        return flow

    def statement(self, node: ast.stmt) -> tuple[Flow, Branch | None]:
        """Run one statement; returns the guard under which the rest of the block runs, if it set one."""
        self.fuel -= 1
        match node:
            case ast.If():
                return self._if(node)
            case ast.Return(value=value):
                if value is not None:
                    self.scope.returned.append(self.evaluate(value))
                return Flow.STOP, None
            case ast.Continue() | ast.Break() | ast.Raise():
                return Flow.STOP, None
            case ast.For() | ast.AsyncFor():
                loops.run_for(self, node)
            case ast.While():
                loops.run_while(self, node)
            case ast.With() | ast.AsyncWith():
                return self._with(node), None
            case ast.Try():
                return self._try(node), None
            case _:
                self._simple(node)
        return Flow.NEXT, None

    def _simple(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=value):
                self._expression(value)
            case ast.Assign(targets=[ast.Name(id=name) as target], value=ast.BinOp(left=ast.Name(id=same), op=ast.Add()) as sum_) if (
                name == same
            ):
                self._augmented(ast.copy_location(ast.AugAssign(target, sum_.op, sum_.right), node))
            case ast.Assign(targets=targets, value=value):
                result = self.evaluate(value)
                for target in targets:
                    self.assign(target, result)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self.assign(target, self.evaluate(value))
            case ast.AugAssign():
                self._augmented(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.assign_name(node.name, self.closure(node))
            case ast.ClassDef(name=name):
                self.assign_name(name, ClassRef(self.scope.module.path, name, node))
            case ast.Match(cases=cases):
                for case in cases:
                    self._apart(case.body)
            case _:
                pass

    def closure(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Func:
        """A function defined inside the running one."""
        seen = {**self.scope.outer, **self.scope.env}
        made = Func(self.scope.module.path, node, id(node), tuple(seen.items()), owner=self.scope.owner)
        self.defined[id(node)] = made
        return made

    def _expression(self, node: ast.expr) -> None:
        result = self.evaluate(node)
        # t.div_(n), t.clamp_(...) as statements change the name that they are called on.
        match node:
            case ast.Call(func=ast.Attribute(value=target, attr=attr)) if attr.endswith("_") and not attr.startswith("_"):
                if isinstance(target, ast.Name | ast.Attribute) and isinstance(result, Poly | Choice | Called | Sym):
                    self.assign(target, result)
            case ast.Call(func=ast.Attribute(value=ast.Name() as target, attr="append"), args=[item]):
                loops.append(self, target, self.evaluate(item))
            case _:
                pass

    def _if(self, node: ast.If) -> tuple[Flow, Branch | None]:
        test = self.evaluate(node.test)
        known = _truth(test)
        if known is not None:
            return self.block(node.body if known else node.orelse), None
        spot = self.spot(node.test)
        before = self._snapshot()
        first = self._branch(node.body, Branch(test, True, spot))
        after_body = self._snapshot()
        self._restore(before)
        second = self._branch(node.orelse, Branch(test, False, spot))
        match first, second:
            case Flow.STOP, Flow.STOP:
                return Flow.STOP, None
            case Flow.STOP, _:
                return Flow.NEXT, Branch(test, False, spot)
            case _, Flow.STOP:
                self._restore(after_body)
                return Flow.NEXT, Branch(test, True, spot)
            case _:
                self._join(after_body)
                return Flow.NEXT, None

    def _branch(self, body: list[ast.stmt], frame: Frame) -> Flow:
        self.frames.append(frame)
        flow = self.block(body)
        self.frames.pop()
        return flow

    def _apart(self, body: list[ast.stmt]) -> None:
        """Run a branch whose condition is not looked at."""
        before = self._snapshot()
        flow = self.block(body)
        after = self._snapshot()
        self._restore(before)
        if flow is Flow.NEXT:
            self._join(after)

    def _with(self, node: ast.With | ast.AsyncWith) -> Flow:
        kept = len(self.frames)
        for item in node.items:
            context = self.evaluate(item.context_expr)
            entered = calls.enter(context)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, entered)
            self.frames.append(Within(context, self.spot(item.context_expr)))
            if calls.stops_gradient(context):
                self.frames.append(Suspended("no_grad"))
        flow = self.block(node.body)
        del self.frames[kept:]
        return flow

    def _try(self, node: ast.Try) -> Flow:
        flow = self.block(node.body)
        for handler in node.handlers:
            self.frames.append(Suspended("except"))
            self._apart(handler.body)
            self.frames.pop()
        if flow is Flow.NEXT:
            flow = self.block(node.orelse)
        last = self.block(node.finalbody)
        return Flow.STOP if last is Flow.STOP else flow

    # -- branches ------------------------------------------------------------------------------------------------

    def _snapshot(self) -> tuple[dict[str, Value], dict[tuple[int, str], Value], dict[str, Loops]]:
        return dict(self.scope.env), dict(self.heap), dict(self.scope.assigned)

    def _restore(self, state: tuple[dict[str, Value], dict[tuple[int, str], Value], dict[str, Loops]]) -> None:
        env, heap, assigned = state
        self.scope.env, self.heap, self.scope.assigned = dict(env), dict(heap), dict(assigned)

    def _join(self, state: tuple[dict[str, Value], dict[tuple[int, str], Value], dict[str, Loops]]) -> None:
        env, heap, assigned = state
        _merge(self.scope.env, env)
        _merge(self.heap, heap)
        for name, around in assigned.items():
            here = self.scope.assigned.get(name)
            self.scope.assigned[name] = around if here is None or len(around) < len(here) else here

    # -- assignment ----------------------------------------------------------------------------------------------

    def assign(self, target: ast.expr, value: Value) -> None:
        """Bind a target: a name, an attribute of a known object, a key of a known dict, or several of these."""
        match target:
            case ast.Name(id=name):
                self.assign_name(name, value)
            case ast.Attribute(value=base, attr=attr):
                self.assign_attribute(self.evaluate(base), attr, value)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for element, part in zip(elements, self.unpack(value, elements), strict=True):
                    self.assign(element, part)
            case ast.Starred(value=inner):
                self.assign(inner, value)
            case ast.Subscript(value=ast.Name(id=name), slice=key):
                self._assign_item(name, self.evaluate(key), value)
            case _:
                pass

    def assign_name(self, name: str, value: Value) -> None:
        """Bind a name. What is only symbolic takes the name, and remembers where it came from."""
        if isinstance(value, Item | Element | Called) and depth(value) < 8:
            value = Sym(name, value, self.loops)
        elif STEPS_NAME.search(name) and (kept := _named_number(name, value, self.loops)) is not None:
            value = kept
        self.scope.env[name] = value
        self.scope.assigned[name] = self.loops

    def assign_attribute(self, base: Value, attr: str, value: Value) -> None:
        """Bind an attribute, where its object is known."""
        if isinstance(base, Instance):
            if isinstance(value, Item | Element | Called) and depth(value) < 8:
                value = Sym(f"self.{attr}", value, self.loops)
            self.heap[base.id, attr] = value
            self.heap_assigned[base.id, attr] = self.loops

    def _assign_item(self, name: str, key: Value, value: Value) -> None:
        known = self.scope.env.get(name)
        match known, key:
            case Mapping(entries=entries), Const(value=literal):
                rest = tuple((k, v) for k, v in entries if k != literal)
                self.scope.env[name] = Mapping((*rest, (literal, value)))
            case Mapping(entries=entries), _ if entries:
                # A loop over the dict's own keys: each entry becomes what its turn made of it.
                options = value.options if isinstance(value, Choice) else (value,)
                if len(options) == len(entries):
                    changed = tuple((k, v) for (k, _), v in zip(entries, options, strict=True))
                    self.scope.env[name] = Mapping(changed)
            case _:
                pass

    def unpack(self, value: Value, elements: list[ast.expr]) -> Iterator[Value]:
        """The parts of a value on the right of ``a, b = ...``."""
        count = len(elements)
        match value:
            case Sequence(items=items) if len(items) == count:
                yield from items
            case Choice(options=options):
                fitting = [o for o in options if isinstance(o, Sequence) and len(o.items) == count]
                columns = [list(self.unpack(option, elements)) for option in fitting or options]
                for parts in zip(*columns, strict=True):
                    yield algebra.choose(parts)
            case Listing(element=element):
                yield from [element] * count
            case _:
                for position in range(count):
                    yield Item(value, Const(position)) if algebra.poly(value) is not None else OPAQUE

    def _augmented(self, node: ast.AugAssign) -> None:
        more = self.evaluate(node.value)
        before = self.evaluate(node.target)
        spot = self.spot(node)
        match node.op:
            case ast.Add():
                result = algebra.accumulate(before, more, loops.carried_over(self, node.target), spot, self.loops)
            case ast.Sub():
                result = algebra.add(before, algebra.negate(more))
            case ast.Mult():
                result = algebra.multiply(before, more, spot)
            case ast.Div():
                result = algebra.divide(before, more, spot)
                calls.note_rescale(self, node.target, more, spot)
            case _:
                result = OPAQUE
        known = self.scope.assigned.get(node.target.id) if isinstance(node.target, ast.Name) else None
        self.assign(node.target, result)
        if known is not None and isinstance(node.target, ast.Name):
            self.scope.assigned[node.target.id] = known


def _named_number(name: str, value: Value, around: Loops) -> Sym | None:
    """The number of steps under its name, which is what messages should say; a literal 1 is no accumulation."""
    match value:
        case Const(value=int() as literal) if literal > 1:
            return Sym(name, None, around, default=value)
        case Poly(terms=(Term(atom=None),)):
            return Sym(name, value, around)
        case _:
            return None


def _truth(test: Value) -> bool | None:
    match test:
        case Const(value=literal):
            return bool(literal)
        case Logic(op=LogicOp.NOT, parts=(Const(value=literal),)):
            return not literal
        case _:
            return None


def _merge(into: dict, other: dict) -> None:  # type: ignore[type-arg] # two kinds of keys, one operation
    for key, value in other.items():
        here = into.get(key)
        if here is None:
            into[key] = value
        elif here is not value:
            into[key] = algebra.choose((value, here))

