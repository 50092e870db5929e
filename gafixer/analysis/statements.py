"""Statements: one after the other, branches both ways."""

from __future__ import annotations

import ast
import enum
from typing import TYPE_CHECKING

from gafixer.analysis import algebra, assignment, contexts, ignite, loops, training
from gafixer.analysis.events import Branch, Frame, Suspended, Within
from gafixer.analysis.values import Called, Choice, ClassRef, Const, Logic, LogicOp, Poly, Sym, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.interpreter import Interpreter
    from gafixer.analysis.ledger import Ledger

__all__ = ["Flow", "block"]


#: Blocks inside each other that are run; and those from which on the arms of an ``if`` are run one after the other, so
#: that a chain of ``elif``, which is nested, can have any length.
_DEEPEST_BLOCK, _DEEPEST_IF = 100, 60


class Flow(enum.Enum):
    """Whether control reaches the next statement."""

    NEXT = "next"
    STOP = "stop"


def block(run: Interpreter, body: list[ast.stmt]) -> Flow:
    """Run statements; a branch that left early guards what follows it."""
    if run.level > _DEEPEST_BLOCK:
        return Flow.NEXT
    kept = len(run.frames)
    flow = Flow.NEXT
    run.level += 1
    for node in body:
        if run.fuel < 0:
            break
        flow, guard = _statement(run, node)
        if flow is Flow.STOP:
            break
        if guard is not None:
            run.frames.append(guard)
    run.level -= 1
    del run.frames[kept:]
    return flow


def _statement(run: Interpreter, node: ast.stmt) -> tuple[Flow, Branch | None]:
    """Run one statement; returns the guard under which the rest of the block runs, if it set one."""
    run.fuel -= 1
    match node:
        case ast.If():
            return _if(run, node)
        case ast.Return(value=value):
            if value is not None:
                run.scope.returned.append(run.evaluate(value))
            return Flow.STOP, None
        case ast.Continue() | ast.Break() | ast.Raise():
            return Flow.STOP, None
        case ast.For() | ast.AsyncFor():
            loops.run_for(run, node)
        case ast.While():
            loops.run_while(run, node)
        case ast.With() | ast.AsyncWith():
            return _with(run, node), None
        case ast.Try():
            return _try(run, node), None
        case _:
            _simple(run, node)
    return Flow.NEXT, None


def _simple(run: Interpreter, node: ast.stmt) -> None:
    match node:
        case ast.Expr(value=value):
            _expression(run, value)
        case ast.Assign(
            targets=[ast.Name(id=name) as target], value=ast.BinOp(left=ast.Name(id=same), op=ast.Add()) as whole
        ) if name == same:
            assignment.augmented(run, ast.copy_location(ast.AugAssign(target, whole.op, whole.right), node))
        case ast.Assign(targets=targets, value=value):
            result = run.evaluate(value)
            for bound in targets:
                assignment.assign(run, bound, result)
        case ast.AnnAssign(target=annotated, value=value) if value is not None:
            assignment.assign(run, annotated, run.evaluate(value))
        case ast.AugAssign():
            assignment.augmented(run, node)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            func = run.closure(node)
            assignment.assign_name(run, node.name, func)
            for decorator in node.decorator_list:
                match decorator:
                    case ast.Call(func=ast.Attribute()):
                        ignite.handled(run, run.evaluate(decorator), func, run.spot(decorator))
                    case ast.Attribute(value=base, attr=name):
                        training.method(run, run.evaluate(base), name, [func], {}, run.spot(decorator))
                    case _:
                        pass
        case ast.ClassDef(name=name):
            assignment.assign_name(run, name, ClassRef(run.scope.module.path, name, node))
        case ast.Match(cases=cases):
            for case in cases:
                _apart(run, case.body)
        case _:
            pass


def _expression(run: Interpreter, node: ast.expr) -> None:
    result = run.evaluate(node)
    # t.div_(n), t.clamp_(...) as statements change the name that they are called on.
    match node:
        case ast.Call(func=ast.Attribute(value=target, attr=attr)) if attr.endswith("_") and not attr.startswith("_"):
            if isinstance(target, ast.Name | ast.Attribute) and isinstance(result, Poly | Choice | Called | Sym):
                assignment.assign(run, target, result)
        case ast.Call(func=ast.Attribute(value=ast.Name() as target, attr="append"), args=[item]):
            loops.append(run, target, run.evaluate(item))
        case _:
            pass


# -- branches ------------------------------------------------------------------------------------------------------


def _arms(node: ast.If) -> Iterator[list[ast.stmt]]:
    """The bodies of an ``if``, of each ``elif`` and of the ``else``."""
    while True:
        yield node.body
        match node.orelse:
            case [ast.If() as inner]:
                node = inner
            case rest:
                yield rest
                return


def _if(run: Interpreter, node: ast.If) -> tuple[Flow, Branch | None]:
    if run.level > _DEEPEST_IF:
        for body in _arms(node):
            _apart(run, body)
        return Flow.NEXT, None
    test = run.evaluate(node.test)
    known = _truth(test)
    if known is not None:
        return block(run, node.body if known else node.orelse), None
    spot = run.spot(node.test)
    arm = _Arm(run)
    first = _branch(run, node.body, Branch(test, True, spot))
    arm.leave()
    second = _branch(run, node.orelse, Branch(test, False, spot))
    match first, second:
        case Flow.STOP, Flow.STOP:
            return Flow.STOP, None
        case Flow.STOP, _:
            return Flow.NEXT, Branch(test, False, spot)
        case _, Flow.STOP:
            arm.take()
            return Flow.NEXT, Branch(test, True, spot)
        case _:
            arm.join()
            return Flow.NEXT, None


def _branch(run: Interpreter, body: list[ast.stmt], frame: Frame) -> Flow:
    run.frames.append(frame)
    flow = block(run, body)
    run.frames.pop()
    return flow


def _apart(run: Interpreter, body: list[ast.stmt]) -> None:
    """Run a branch whose condition is not looked at."""
    arm = _Arm(run)
    flow = block(run, body)
    arm.leave()
    if flow is Flow.NEXT:
        arm.join()


class _Arm:
    """One arm of a branch: what it assigned is set aside while the other arm runs."""

    def __init__(self, run: Interpreter) -> None:
        self._env, self._heap, self._assigned = run.scope.env, run.heap, run.scope.assigned
        self._mark()

    def _mark(self) -> None:
        self._marks = self._env.mark(), self._heap.mark(), self._assigned.mark()

    def leave(self) -> None:
        """The arm has run: set its assignments aside."""
        env, heap, assigned = self._marks
        self._in_env = self._env.undo(env)
        self._in_heap = self._heap.undo(heap)
        self._in_assigned = self._assigned.undo(assigned)
        self._mark()

    def take(self) -> None:
        """The other arm left: only this one goes on."""
        env, heap, assigned = self._marks
        self._env.undo(env)
        self._heap.undo(heap)
        self._assigned.undo(assigned)
        for key, (_, now) in self._in_env.items():
            self._env[key] = now
        for place, (_, now) in self._in_heap.items():
            self._heap[place] = now
        for key, (_, around) in self._in_assigned.items():
            self._assigned[key] = around

    def join(self) -> None:
        """Both arms go on: what they assigned differently may be either."""
        env, heap, _ = self._marks
        _merge(self._env, self._in_env, env)
        _merge(self._heap, self._in_heap, heap)
        for key, (_, around) in self._in_assigned.items():
            here = self._assigned.get(key)
            if here is None or len(around) < len(here):
                self._assigned[key] = around


def _merge(into: Ledger, mine: dict, mark: int) -> None:  # type: ignore[type-arg] # two kinds of keys, one operation
    theirs = into.changes(mark)
    for key, (before, now) in mine.items():
        here = theirs[key][1] if key in theirs else before
        into[key] = now if here is None or here is now else algebra.choose((now, here))
    for key, (before, now) in theirs.items():
        if key not in mine and before is not None and before is not now:
            into[key] = algebra.choose((before, now))


def _truth(test: Value) -> bool | None:
    match test:
        case Const(value=literal):
            return bool(literal)
        case Logic(op=LogicOp.NOT, parts=(Const(value=literal),)):
            return not literal
        case _:
            return None


# -- contexts ------------------------------------------------------------------------------------------------------


def _with(run: Interpreter, node: ast.With | ast.AsyncWith) -> Flow:
    kept = len(run.frames)
    for item in node.items:
        context = run.evaluate(item.context_expr)
        entered = contexts.enter(context)
        if item.optional_vars is not None:
            assignment.assign(run, item.optional_vars, entered)
        run.frames.append(Within(context, run.spot(item.context_expr)))
        if contexts.stops_gradient(context):
            run.frames.append(Suspended("no_grad"))
    flow = block(run, node.body)
    del run.frames[kept:]
    return flow


def _try(run: Interpreter, node: ast.Try) -> Flow:
    flow = block(run, node.body)
    for handler in node.handlers:
        run.frames.append(Suspended("except"))
        _apart(run, handler.body)
        run.frames.pop()
    if flow is Flow.NEXT:
        flow = block(run, node.orelse)
    last = block(run, node.finalbody)
    return Flow.STOP if last is Flow.STOP else flow
