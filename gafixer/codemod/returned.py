"""The terms of a loss that a function returns: where each is made, back from what is returned."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gafixer.codemod.count import SAME
from gafixer.codemod.labels import bound, counts_scored
from gafixer.codemod.plan import DeclinedError
from gafixer.codemod.tree import spelled
from gafixer.data.losses import FUNCTIONS, MODULES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.codemod.tree import Tree

__all__ = ["Leaf", "Made", "leaves", "returned"]


class Made(enum.Enum):
    """What makes a term."""

    CRITERION = "a call of a loss of PyTorch"
    MEAN = "a mean by hand"
    QUOTIENT = "a sum divided by the microbatch's own count"
    CALL = "a call that may take the count"
    SUPER = "the method of the base class"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A term of a loss: `node` is the expression that is a mean, `call` the call that makes it."""

    made: Made
    node: ast.expr
    call: ast.Call


@dataclass(slots=True)
class _Walk:
    tree: Tree
    function: ast.FunctionDef
    names: frozenset[str]
    seen: set[int] = field(default_factory=set)
    found: dict[int, Leaf] = field(default_factory=dict)


def returned(tree: Tree, function: ast.FunctionDef) -> list[ast.expr]:
    """The expressions of a function that are its loss: what it returns, alone, first, or as ``loss``."""
    found: list[ast.expr] = []
    for node in tree.walk(function):
        if isinstance(node, ast.Return) and node.value is not None and tree.function_of(node) is function:
            found += _loss_in(tree, function, node.value)
    return found


def _loss_in(tree: Tree, function: ast.FunctionDef, node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.IfExp(body=body, orelse=orelse):
            yield from _loss_in(tree, function, body)
            yield from _loss_in(tree, function, orelse)
        case ast.Tuple(elts=[first, *_]):
            yield first
        case ast.BinOp(left=ast.Tuple(elts=[first, *_]), op=ast.Add()):
            yield first
        case ast.BinOp(left=ast.IfExp() as left, op=ast.Add()):
            yield from _loss_in(tree, function, left)
        case ast.Call(keywords=keywords) if any(k.arg == "loss" for k in keywords):
            yield next(k.value for k in keywords if k.arg == "loss")
        case ast.Dict(keys=keys, values=values):
            yield from (
                v for k, v in zip(keys, values, strict=True) if isinstance(k, ast.Constant) and k.value == "loss"
            )
        case ast.Name(id=name) if (made := _output(tree, function, name, node.lineno)) is not None:
            yield from _loss_in(tree, function, made)
        case ast.Name(id=name) if name in {"output", "outputs", "logits", "result"}:
            return
        case _:
            yield node


def _output(tree: Tree, function: ast.FunctionDef, name: str, row: int) -> ast.expr | None:
    """A dict or an output object with a loss that a name was made of."""
    match bound(tree, function, name, row):
        case [ast.Assign(value=ast.Dict() | ast.Call() as value)] if name not in {"loss"}:
            has = isinstance(value, ast.Dict) or any(k.arg == "loss" for k in value.keywords)
            return value if has else None
        case _:
            return None


def leaves(tree: Tree, function: ast.FunctionDef, nodes: list[ast.expr], names: frozenset[str]) -> list[Leaf]:
    """The terms of a loss; `names` are the parameters that hold labels.

    Raises:
        DeclinedError: a part of it is something else.
    """
    walk = _Walk(tree, function, names)
    for node in nodes:
        _follow(walk, node)
    return sorted(walk.found.values(), key=lambda leaf: (leaf.node.lineno, leaf.node.col_offset))


def _follow(walk: _Walk, node: ast.expr) -> None:
    if id(node) in walk.seen:
        return
    walk.seen.add(id(node))
    match node:
        case ast.Constant():
            return
        case ast.UnaryOp(operand=inner):
            _follow(walk, inner)
        case ast.IfExp(body=body, orelse=orelse):
            _follow(walk, body)
            _follow(walk, orelse)
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
            _follow(walk, left)
            _follow(walk, right)
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            carriers = [part for part in (left, right) if _carries(walk, part)]
            if len(carriers) != 1:
                raise DeclinedError("a product in the loss could not be followed")
            _follow(walk, carriers[0])
        case ast.BinOp(op=ast.Div(), left=left, right=right):
            _quotient(walk, node, left, right)
        case ast.Name(id=name):
            _name(walk, node, name)
        case ast.Attribute(attr="loss", value=inner) | ast.Subscript(value=inner, slice=ast.Constant(value="loss" | 0)):
            _output_of(walk, node, inner)
        case ast.Call():
            _call(walk, node)
        case _:
            raise DeclinedError("a part of the loss could not be followed")


def _carries(walk: _Walk, node: ast.expr) -> bool:
    """Whether a factor is, or is made of, a loss."""
    trial = _Walk(walk.tree, walk.function, walk.names)
    try:
        _follow(trial, node)
    except DeclinedError:
        return False
    return bool(trial.found)


def _quotient(walk: _Walk, node: ast.expr, left: ast.expr, right: ast.expr) -> None:
    try:
        counts = counts_scored(walk.tree, walk.function, right, walk.names)
    except DeclinedError:
        counts = None
    sums = [n for n in ast.walk(left) if isinstance(n, ast.Call)]
    if sums and (counts is not None or (_is_sum(left) and not isinstance(right, ast.Constant))):
        walk.found[id(node)] = Leaf(Made.QUOTIENT, node, sums[0])
        return
    if isinstance(right, ast.Constant) or (spelled(right) or "").startswith("self."):
        _follow(walk, left)
        return
    raise DeclinedError("the loss is divided by something else than the count of its labels")


def _is_sum(node: ast.expr) -> bool:
    """Whether an expression adds all of a tensor up."""
    match node:
        case ast.UnaryOp(operand=inner):
            return _is_sum(inner)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="sum"), args=[_], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="sum"), args=[], keywords=[]):
            return True
        case _:
            return False


def _name(walk: _Walk, node: ast.Name, name: str) -> None:
    made = bound(walk.tree, walk.function, name, node.lineno)
    if not made:
        raise DeclinedError(f"`{name}` in the loss could not be followed")
    for statement in made:
        match statement:
            case ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(value=ast.expr() as value):
                _follow(walk, value)
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=first), *_])], value=ast.Call() as value) if (
                first == name
            ):
                _call(walk, value)
            case ast.AugAssign(op=ast.Add(), value=value):
                _follow(walk, value)
                for earlier in bound(walk.tree, walk.function, name, statement.lineno):
                    if isinstance(earlier, ast.Assign):
                        _follow(walk, earlier.value)
            case ast.AugAssign(op=ast.Mult()):
                for earlier in bound(walk.tree, walk.function, name, statement.lineno):
                    if isinstance(earlier, ast.Assign):
                        _follow(walk, earlier.value)
            case _:
                raise DeclinedError(f"`{name}` in the loss could not be followed")


def _output_of(walk: _Walk, node: ast.expr, inner: ast.expr) -> None:
    """The loss in what a model returned."""
    match inner:
        case ast.Call():
            walk.found[id(node)] = Leaf(Made.CALL, node, inner)
        case ast.Name(id=name):
            match bound(walk.tree, walk.function, name, node.lineno):
                case [ast.Assign(targets=[ast.Name()], value=ast.Call() as call)]:
                    walk.found[id(node)] = Leaf(Made.CALL, node, call)
                case [ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name(id=second)])], value=ast.Call() as call)] if (
                    second == name
                ):
                    walk.found[id(node)] = Leaf(Made.SUPER if is_super(call) else Made.CALL, node, call)
                case _:
                    raise DeclinedError("the model's output could not be followed")
        case _:
            raise DeclinedError("the model's output could not be followed")


def is_super(call: ast.Call) -> bool:
    """Whether a call is one of ``super()``."""
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
            return True
        case _:
            return False


def _call(walk: _Walk, node: ast.Call) -> None:
    match node.func:
        case ast.Attribute(value=inner, attr="mean") if not node.args and not node.keywords:
            made = _criterion_mean(walk, inner)
            walk.found[id(node)] = Leaf(Made.MEAN, node, node) if made is None else made
        case ast.Attribute(value=ast.Name(id="torch"), attr="mean") if len(node.args) == 1:
            walk.found[id(node)] = Leaf(Made.MEAN, node, node)
        case ast.Attribute(attr="get" | "pop", value=inner) if (
            node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == "loss"
        ):
            _output_of(walk, node, inner)
        case ast.Attribute(value=inner, attr=attr) if attr in SAME and not _is_criterion(walk, node):
            _follow(walk, inner)
        case _ if is_super(node):
            walk.found[id(node)] = Leaf(Made.SUPER, node, node)
        case _ if _is_criterion(walk, node):
            walk.found[id(node)] = Leaf(Made.CRITERION, node, node)
        case _:
            walk.found[id(node)] = Leaf(Made.CALL, node, node)


def _criterion_mean(walk: _Walk, inner: ast.expr) -> Leaf | None:
    """The mean of a loss that is one already: ``outputs.loss.mean()``, for models on several devices."""
    match inner:
        case ast.Attribute(attr="loss") | ast.Subscript(slice=ast.Constant(value="loss" | 0)):
            trial = _Walk(walk.tree, walk.function, walk.names)
            _follow(trial, inner)
            return next(iter(trial.found.values()), None)
        case _:
            return None


def _is_criterion(walk: _Walk, node: ast.Call) -> bool:
    return settings_of(walk.tree, walk.function, node) is not None


def settings_of(tree: Tree, function: ast.FunctionDef, node: ast.Call) -> ast.Call | None:
    """The call that says how a loss of PyTorch reduces: its own, or that which made the criterion object."""
    key = spelled(node.func)
    if key is not None and key.rpartition(".")[2] in FUNCTIONS:
        return node
    match node.func:
        case ast.Call() as made if _is_module(made):
            return made
        case ast.Name(id=name):
            made_here = [s for s in bound(tree, function, name, node.lineno) if isinstance(s, ast.Assign)]
            # Of branches that each make one, that of this branch.
            around = {id(n) for n in tree.around(node)}
            near = [s for s in made_here if id(tree.parent(s)) in around] or made_here
            for statement in reversed(near):
                if isinstance(statement.value, ast.Call) and _is_module(statement.value):
                    return statement.value
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            cls = tree.class_of(function)
            made_in = tree.assignments(cls, f"self.{attr}") if cls is not None else []
            if len(made_in) == 1 and isinstance(made_in[0], ast.Assign) and isinstance(made_in[0].value, ast.Call):
                return made_in[0].value if _is_module(made_in[0].value) else None
        case _:
            pass
    return None


def _is_module(node: ast.Call) -> bool:
    return (spelled(node.func) or "").rpartition(".")[2] in MODULES
