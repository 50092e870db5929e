"""The statements of a traced function: in order, branches both ways, loops once."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.analysis.flow import NOTHING, Flow, join, with_entry
from gafixer.analysis.values import Instance

if TYPE_CHECKING:
    from gafixer.analysis.tracing import Tracer

__all__ = ["assign", "block"]


def block(run: Tracer, body: list[ast.stmt]) -> bool:
    """Run statements; whether control reaches what follows them."""
    for statement in body:
        run.fuel -= 1
        if run.fuel < 0:
            return True
        if not _statement(run, statement):
            return False
    return True


def _statement(run: Tracer, node: ast.stmt) -> bool:
    match node:
        case ast.Return(value=value):
            if value is not None:
                run.frame.returned.append(run.evaluate(value))
            return False
        case ast.Raise() | ast.Continue() | ast.Break():
            return False
        case ast.If(test=test, body=body, orelse=orelse):
            return _if(run, run.decide(test), body, orelse)
        case ast.For(target=target, iter=iterable) | ast.AsyncFor(target=target, iter=iterable):
            assign(run, target, run.evaluate(iterable).whole())
            _maybe(run, node.body)
            _maybe(run, node.orelse)
        case ast.While():
            _maybe(run, node.body)
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            for item in items:
                entered = run.evaluate(item.context_expr)
                if item.optional_vars is not None:
                    assign(run, item.optional_vars, entered)
            return block(run, body)
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
            reached = block(run, body) and block(run, orelse)
            for handler in handlers:
                _maybe(run, handler.body)
            return block(run, final) and reached
        case _:
            _simple(run, node)
    return True


def _simple(run: Tracer, node: ast.stmt) -> None:
    match node:
        case ast.Expr(value=value):
            run.evaluate(value)
        case ast.Assign(targets=targets, value=value):
            result = run.evaluate(value)
            for target in targets:
                assign(run, target, result)
        case ast.AnnAssign(target=target, value=value) if value is not None:
            assign(run, target, run.evaluate(value))
        case ast.AugAssign(target=target, op=op, value=value):
            assign(run, target, run.combined(op, run.evaluate(target), run.evaluate(value), run.spot(node)))
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            run.frame.env[name] = Flow(value=run.closure(node))
        case _:
            pass


def _if(run: Tracer, known: bool | None, body: list[ast.stmt], orelse: list[ast.stmt]) -> bool:
    if known is not None:
        return block(run, body if known else orelse)
    before = dict(run.frame.env), dict(run.heap)
    first = block(run, body)
    after = run.frame.env, run.heap
    run.frame.env, run.heap = dict(before[0]), dict(before[1])
    second = block(run, orelse)
    if first and second:
        _merge(run, *after)
    elif first:
        run.frame.env, run.heap = after
    return first or second


def _maybe(run: Tracer, body: list[ast.stmt]) -> None:
    """A block that may not run."""
    _if(run, None, body, [])


def _merge(run: Tracer, env: dict[str, Flow], heap: dict[str, Flow]) -> None:
    for mine, other in ((run.frame.env, env), (run.heap, heap)):
        for name, flow in other.items():
            mine[name] = join([flow, mine[name]]) if name in mine else flow


def assign(run: Tracer, target: ast.expr, flow: Flow) -> None:
    """Bind a target."""
    match target:
        case ast.Name(id=name):
            run.frame.env[name] = flow
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            parts = flow.parts if flow.parts is not None and len(flow.parts) == len(elements) else None
            for index, element in enumerate(elements):
                assign(run, element, parts[index] if parts else _unpacked(flow, index))
        case ast.Starred(value=inner):
            assign(run, inner, flow.whole())
        case ast.Attribute(value=ast.Name(id=name), attr=attr):
            if isinstance(run.frame.env.get(name, NOTHING).value, Instance):
                run.heap[attr] = flow
        case ast.Subscript(value=ast.Name(id=name), slice=key):
            base = run.frame.env.get(name, NOTHING)
            run.frame.env[name] = with_entry(base, run.constant(key), flow)
        case _:
            pass


def _unpacked(flow: Flow, index: int) -> Flow:
    """An element of something that is no known tuple: of a model's output the first is the loss."""
    if flow.fields is not None and (loss := flow.get("loss")) is not None:
        return loss if index == 0 else NOTHING
    return flow.whole()
