"""The value of an expression."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from gafixer.analysis import algebra, calls, dispatch, loops, reductions, training
from gafixer.analysis.names import Assigned
from gafixer.analysis.spelling import depth
from gafixer.analysis.values import (
    MICROBATCHES,
    OPAQUE,
    Atom,
    Attr,
    Bound,
    Called,
    Choice,
    ClassRef,
    Compare,
    Const,
    Detached,
    Element,
    External,
    Func,
    Index,
    Instance,
    Item,
    Listing,
    Logic,
    LogicOp,
    LossModule,
    Mapping,
    ModuleRef,
    Modulo,
    Opaque,
    Poly,
    Reduction,
    Sequence,
    Sym,
    Value,
)

if TYPE_CHECKING:
    from gafixer.analysis.interpreter import Interpreter

__all__ = ["attribute", "evaluate", "module_value"]

#: Attributes that give the same tensor, or one with the same items.
_SAME = frozenset({"data", "T", "mT", "real"})
_UNKNOWN = Opaque | Sym | Attr | Item | Element | Called


def evaluate(run: Interpreter, node: ast.expr) -> Value:
    """The value of `node` in the running scope."""
    match node:
        case ast.Constant(value=literal):
            return Const(literal)
        case ast.Name(id=name):
            return _name(run, name)
        case ast.Attribute(value=base, attr=attr):
            return attribute(run, run.evaluate(base), attr)
        case ast.Call():
            return dispatch.evaluate(run, node) or calls.evaluate(run, node)
        case ast.BinOp():
            return _binary(run, node)
        case ast.UnaryOp(op=op, operand=operand):
            return _unary(op, run.evaluate(operand))
        case ast.BoolOp(op=op, values=values):
            parts = tuple(run.evaluate(part) for part in values)
            return _logic(LogicOp.AND if isinstance(op, ast.And) else LogicOp.OR, parts)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compared(_SPELLING[type(op)], run.evaluate(left), run.evaluate(right))
        case ast.Compare(left=left, comparators=comparators):
            for part in (left, *comparators):
                run.evaluate(part)
            return OPAQUE
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _conditional(run, test, body, orelse)
        case ast.Subscript(value=base, slice=key):
            return dispatch.subscript(run, node) or subscript(run, run.evaluate(base), key)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return Sequence(tuple(run.evaluate(e.value if isinstance(e, ast.Starred) else e) for e in elements))
        case ast.Dict(keys=keys, values=values):
            return _dict(run, keys, values)
        case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
            return loops.comprehension(run, node)
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            result = run.evaluate(value)
            run.assign(node.target, result)
            return run.scope.env[name]
        case ast.Await(value=value) | ast.Starred(value=value):
            return run.evaluate(value)
        case ast.Yield(value=value):
            run.scope.yielded.append(run.evaluate(value))
            return OPAQUE
        case ast.YieldFrom(value=value):
            run.scope.yielded.append(Element(run.evaluate(value), 0))
            return OPAQUE
        case ast.Lambda():
            return run.closure(node)
        case ast.JoinedStr(values=values):
            for part in values:
                if isinstance(part, ast.FormattedValue):
                    training.report(run, run.evaluate(part.value), run.spot(part.value))
            return Const("")
        case _:
            return OPAQUE


_SPELLING: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


def _name(run: Interpreter, name: str) -> Value:
    scope = run.scope
    if name in scope.env:
        return scope.env[name]
    if name in scope.outer:
        return scope.outer[name]
    return module_value(run, name) or Sym(name)


def module_value(run: Interpreter, name: str) -> Value | None:
    """A top-level name of the running module, or None."""
    found = run.names.lookup(run.scope.module, name)
    if isinstance(found, Assigned):
        return calls.evaluate_elsewhere(run, found, name)
    return found


def attribute(run: Interpreter, base: Value, attr: str) -> Value:
    """``base.attr``."""
    match base:
        case Choice(options=options):
            # Whoever asks None for an attribute has tested that it isn't None.
            return algebra.choose(attribute(run, option, attr) for option in options if option != Const(None))
        case _ if attr == "microbatches" and loops.brings_counts(base):
            return MICROBATCHES
        case Instance():
            return _of_object(run, base, attr)
        case ModuleRef(name=path):
            found = run.names.lookup(run.names.modules[path], attr)
            if isinstance(found, Assigned):
                return calls.evaluate_elsewhere(run, found, attr)
            return found or run.names.member(base, attr) or OPAQUE
        case External(path=path):
            return External(f"{path}.{attr}")
        case ClassRef():
            return run.names.method(base, attr) or _field(run, base, attr) or Bound(base, attr)
        case Poly() | Atom() | Detached() | Listing() | Sequence() | Mapping() | Func():
            return base if attr in _SAME else Bound(base, attr)
        case Sym(cls=ClassRef() as cls) if (method := run.names.method(cls, attr)) is not None:
            return calls.bound_method(run, method, base)
        case _ if attr in _SAME and isinstance(base, Called | Item | Element):
            return base
        case _ if depth(base) > 7:
            return OPAQUE
        case _:
            return Attr(base, attr)


def _of_object(run: Interpreter, obj: Instance, attr: str) -> Value:
    if (obj.id, attr) in run.heap:
        known = run.heap[obj.id, attr]
        # None in __init__ only declares: another method fills it in.
        return Sym(f"self.{attr}", default=known) if known == Const(None) else _named(run, known, attr) or known
    method = run.names.method(obj.cls, attr)
    if method is not None:
        return calls.bound_method(run, method, obj)
    return _field(run, obj.cls, attr) or Sym(f"self.{attr}")


def _named(run: Interpreter, value: Value | None, name: str) -> Value | None:
    """A number that the code holds under a name keeps it: another run may set another."""
    match value:
        case Const(value=int() as number) if number > 1 and run.declared.is_steps(name):
            return Sym(name.strip("[]'"), default=value)
        case _:
            return value


def _field(run: Interpreter, cls: ClassRef, attr: str) -> Value | None:
    found = run.names.field(cls, attr)
    return None if found is None else calls.evaluate_elsewhere(run, Assigned(*found), attr)


def subscript(run: Interpreter, base: Value, key_node: ast.expr) -> Value:
    """``base[key]``."""
    if isinstance(key_node, ast.Slice):
        for part in (key_node.lower, key_node.upper, key_node.step):
            if part is not None:
                run.evaluate(part)
        key: Value = OPAQUE
    elif isinstance(key_node, ast.Tuple):
        parts = [run.evaluate(e) for e in key_node.elts if not isinstance(e, ast.Slice)]
        key = next((p for p in parts if not isinstance(p, Const)), OPAQUE)
    else:
        key = run.evaluate(key_node)
    return _item(run, base, key, sliced=isinstance(key_node, ast.Slice | ast.Tuple))


def _item(run: Interpreter, base: Value, key: Value, *, sliced: bool) -> Value:
    match base, key:
        case Choice(options=options), _:
            return algebra.choose(_item(run, option, key, sliced=sliced) for option in options)
        case Sequence(items=items), Const(value=int() as position) if -len(items) <= position < len(items):
            return items[position]
        case Sequence(items=items), _ if items:
            return base if sliced else algebra.choose(items)
        case Listing(element=element), _:
            return base if sliced else element
        case Mapping(), Const(value=literal):
            return _named(run, base.get(literal), f"[{literal!r}]") or OPAQUE
        case Mapping(entries=entries), _ if entries:
            return algebra.choose(value for _, value in entries)
        case Atom(reduction=Reduction.NONE) | Poly(), _:
            return base if isinstance(key, Const) or key == OPAQUE else reductions.select(base, key)
        case Detached(of=of), _:
            return Detached(_item(run, of, key, sliced=sliced))
        case Sym() | Attr() | Item() | Element() | Called() | External(), _ if depth(base) < 8:
            return base if sliced and key == OPAQUE else Item(base, key)
        case _:
            return OPAQUE


def _compared(op: str, left: Value, right: Value) -> Value:
    """A comparison; whether something is None is known of what is surely something."""
    if op in {"is", "is not"} and right == Const(None):
        if isinstance(left, Const):
            return Const((left.value is None) == (op == "is"))
        if _is_something(left):
            return Const(op == "is not")
    if isinstance(left, Const) and isinstance(right, Const) and isinstance(left.value, str) and op in {"==", "!="}:
        return Const((left.value == right.value) == (op == "=="))
    return Compare(op, left, right)


def _is_something(value: Value) -> bool:
    match value:
        case Poly() | Atom() | Sequence() | Listing() | Mapping() | Instance() | Func() | LossModule():
            return True
        case Sym(origin=Item() | Element()) | Opaque():
            return True  # computed by code that could not be followed: seldom nothing
        case _:
            return False


def _dict(run: Interpreter, keys: list[ast.expr | None], values: list[ast.expr]) -> Value:
    entries: list[tuple[object, Value]] = []
    for key, value in zip(keys, values, strict=True):
        result = run.evaluate(value)
        match key:
            case ast.Constant(value=literal):
                entries.append((literal, result))
            case None if isinstance(result, Mapping):
                entries += result.entries
            case _:
                pass
    return Mapping(tuple(entries))


def _conditional(run: Interpreter, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Value:
    known = run.evaluate(test)
    if isinstance(known, Const):
        return run.evaluate(body if known.value else orelse)
    match body, orelse:
        case ast.Constant(value=True), ast.Constant(value=False):
            return known
        case ast.Constant(value=False), ast.Constant(value=True):
            return Logic(LogicOp.NOT, (known,))
        case _:
            pass
    return algebra.choose((run.evaluate(body), run.evaluate(orelse)))


def _unary(op: ast.unaryop, operand: Value) -> Value:
    match op, operand:
        case ast.Not(), Logic(op=LogicOp.NOT, parts=(inner,)):
            return inner
        case ast.Not(), _:
            return Logic(LogicOp.NOT, (operand,))
        case ast.USub(), _:
            return algebra.negate(operand) if algebra.poly(operand) is not None else OPAQUE
        case _:
            return operand


def _logic(op: LogicOp, parts: tuple[Value, ...]) -> Value:
    """``x or 1`` and ``x and y`` as values; as a test they keep their parts."""
    plain = [p for p in parts if not isinstance(p, Const)]
    if len(plain) == 1 and op is LogicOp.OR and not isinstance(plain[0], Compare | Logic | Modulo):
        return plain[0]
    return Logic(op, parts)


def _binary(run: Interpreter, node: ast.BinOp) -> Value:
    left, right = run.evaluate(node.left), run.evaluate(node.right)
    spot = run.spot(node)
    match node.op:
        case ast.Add() if run.opens_tuples and isinstance(left, Sequence) and isinstance(right, _UNKNOWN):
            return Sequence((*left.items, OPAQUE))
        case ast.Add():
            return algebra.add(left, right)
        case ast.Sub():
            return algebra.add(left, algebra.negate(right))
        case ast.Mult():
            if isinstance(left, Sequence) and (isinstance(right, Const) or isinstance(node.left, ast.List)):
                return _repeated(left, right)
            return algebra.multiply(left, right, spot)
        case ast.Div():
            return algebra.divide(left, right, spot)
        case ast.FloorDiv():
            return _floor(left, right, node, run)
        case ast.Mod():
            return OPAQUE if isinstance(left, Const) and isinstance(left.value, str) else Modulo(left, right, spot)
        case ast.Pow():
            return _power(left, right, run, node)
        case ast.BitAnd() | ast.BitOr():
            return Logic(LogicOp.AND if isinstance(node.op, ast.BitAnd) else LogicOp.OR, (left, right))
        case _:
            return OPAQUE


def _repeated(items: Sequence, times: Value) -> Value:
    """``[x] * n``: a list of so many."""
    if not items.items:
        return items
    return Listing(items.items[0], length=times if len(items.items) == 1 else None)


def _floor(left: Value, right: Value, node: ast.BinOp, run: Interpreter) -> Value:
    a, b = algebra.number(left), algebra.number(right)
    if a is not None and b:
        floor = a // b
        return Const(int(floor)) if math.isfinite(floor) else OPAQUE
    if isinstance(left, Index):
        return OPAQUE
    return algebra.divide(left, right, run.spot(node))


def _power(left: Value, right: Value, run: Interpreter, node: ast.BinOp) -> Value:
    match algebra.number(left), algebra.number(right):
        case (float() as a, float() as b) if (
            abs(a) < 1e6 and abs(b) < 64 and (a > 0 or b.is_integer()) and (a or b > 0)
        ):
            try:
                return Const(a**b)
            except OverflowError:
                return OPAQUE
        case (_, 2.0):
            return Called(External("pow"), (left,), (), run.spot(node), run.loops)
        case _:
            return Called(External("pow"), (left, right), (), run.spot(node), run.loops)
