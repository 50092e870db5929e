"""Assignment: to names, attributes of known objects, keys of known dicts, and several of these at once."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.analysis import algebra, loops, reductions, training
from gafixer.analysis.names import spelled
from gafixer.analysis.spelling import bounded
from gafixer.analysis.values import (
    OPAQUE,
    Called,
    Choice,
    Const,
    Element,
    Instance,
    Item,
    Listing,
    Loops,
    Mapping,
    Poly,
    Sequence,
    Sym,
    Term,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.interpreter import Interpreter
    from gafixer.analysis.spot import Spot

__all__ = ["assign", "assign_name", "augmented"]


def assign(run: Interpreter, target: ast.expr, value: Value) -> None:
    """Bind a target."""
    match target:
        case ast.Name(id=name):
            assign_name(run, name, value)
        case ast.Attribute(value=base, attr=attr):
            _assign_attribute(run, run.evaluate(base), attr, value)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for element, part in zip(elements, _unpack(value, len(elements)), strict=True):
                assign(run, element, part)
        case ast.Starred(value=inner):
            assign(run, inner, value)
        case ast.Subscript(value=ast.Name(id=name), slice=key):
            _assign_item(run, name, run.evaluate(key), value)
        case _:
            pass


def assign_name(run: Interpreter, name: str, value: Value) -> None:
    """Bind a name. What is only symbolic takes the name, and remembers where it came from."""
    scope = run.scope
    value = bounded(value)
    if isinstance(value, Item | Element | Called):
        value = Sym(name, value, run.loops)
    elif run.declared.is_steps(name) and (kept := _named_number(name, value, run.loops)) is not None:
        value = kept
    scope.env[name] = value
    if name not in scope.beyond:
        scope.assigned[name] = run.loops


def _named_number(name: str, value: Value, around: Loops) -> Sym | None:
    """The number of steps under its name, which is what messages should say; a literal 1 is no accumulation."""
    match value:
        case Const(value=int() as literal) if literal > 1:
            return Sym(name, None, around, default=value)
        case Poly(terms=(Term(atom=None),)):
            return Sym(name, value, around)
        case _:
            return None


def _assign_attribute(run: Interpreter, base: Value, attr: str, value: Value) -> None:
    if isinstance(base, Instance):
        value = bounded(value)
        if isinstance(value, Item | Element | Called):
            value = Sym(f"self.{attr}", value, run.loops)
        run.heap[base.id, attr] = value
        run.heap_assigned[base.id, attr] = run.loops


def _assign_item(run: Interpreter, name: str, key: Value, value: Value) -> None:
    env = run.scope.env
    value = bounded(value)
    match env.get(name), key:
        case Mapping(entries=entries), Const(value=literal):
            rest = tuple((k, v) for k, v in entries if k != literal)
            env[name] = Mapping((*rest, (literal, value)))
        case Mapping(entries=entries), _ if entries:
            # A loop over the dict's own keys: each entry becomes what its turn made of it.
            options = value.options if isinstance(value, Choice) else (value,)
            if len(options) == len(entries):
                env[name] = Mapping(tuple((k, v) for (k, _), v in zip(entries, options, strict=True)))
        case _:
            pass


def _unpack(value: Value, count: int) -> Iterator[Value]:
    """The parts of a value on the right of ``a, b = ...``."""
    match value:
        case Sequence(items=items) if len(items) == count:
            yield from items
        case Choice(options=options):
            fitting = [o for o in options if isinstance(o, Sequence) and len(o.items) == count]
            columns = [list(_unpack(option, count)) for option in fitting or options]
            for parts in zip(*columns, strict=True):
                yield algebra.choose(parts)
        case Listing(element=element):
            yield from [element] * count
        case _:
            for position in range(count):
                yield Item(value, Const(position)) if algebra.poly(value) is not None else OPAQUE


def augmented(run: Interpreter, node: ast.AugAssign) -> None:
    """``x += y`` and its like."""
    more = run.evaluate(node.value)
    before = run.evaluate(node.target)
    spot = run.spot(node)
    match node.op:
        case ast.Add():
            result = reductions.accumulate(before, more, loops.carried_over(run, node.target), spot, run.loops)
        case ast.Sub():
            result = algebra.add(before, algebra.negate(more))
        case ast.Mult():
            result = algebra.multiply(before, more, spot)
            _note_rescale(run, node.target, more, spot)
        case ast.Div():
            result = algebra.divide(before, more, spot)
            _note_rescale(run, node.target, algebra.divide(Const(1), more, spot), spot)
        case _:
            result = OPAQUE
    assigned = run.scope.assigned
    known = assigned.get(node.target.id) if isinstance(node.target, ast.Name) else None
    assign(run, node.target, result)
    if known is not None and isinstance(node.target, ast.Name):
        assigned[node.target.id] = known


def _note_rescale(run: Interpreter, target: ast.expr, factor: Value, spot: Spot) -> None:
    """``p.grad *= n``: gradients are scaled after backward."""
    if isinstance(target, ast.Attribute) and target.attr in {"grad", "data"} and "grad" in spelled(target):
        training.rescale(run, factor, spot)
