"""A loss that another function computes is asked for its sum: by the parameter that says so, or by a new one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.codemod.carried import bases
from gafixer.codemod.plan import DeclinedError, Keyword, Parameter
from gafixer.codemod.tree import spelled, spot_of
from gafixer.data.losses import FUNCTIONS, MODULES

if TYPE_CHECKING:
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["asked"]

_NAME = "reduction"


def asked(
    tree: Tree, other: Tree, function: ast.FunctionDef, loss: ast.Call, settings: ast.Call, call: ast.Call
) -> frozenset[Part]:
    """Parts that let one call of a function get the sum; whoever else calls it gets the mean as before.

    `loss` is the loss call in the function, `settings` the call that says how it reduces: itself, or what makes the
    criterion there.

    Raises:
        DeclinedError: the function does more with the loss than return it, or can't be given a parameter.
    """
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg in {None, _NAME} for k in call.keywords):
        raise DeclinedError("the call that makes the loss can't be given one more argument")
    if _is_averaged(tree, call):
        raise DeclinedError("the mean that is taken of the loss would be one of the replicas' sums")
    if not _is_only_returned(other, function, loss):
        raise DeclinedError("what computes the loss does more with it than return it")
    said = next((k.value for k in settings.keywords if k.arg == _NAME), None)
    match said:
        case ast.Name(id=name) if _default(function, name) == "mean" and not other.assignments(function, name):
            return frozenset({Keyword(spot_of(tree, call), name, '"sum"')})
        case None | ast.Constant(value="mean"):
            pass
        case _:
            raise DeclinedError("how the loss is averaged is decided where it is computed")
    if (other is not tree and tree.beside(other.path) is None) or other.function_of(settings) is not function:
        raise DeclinedError("what computes the loss is in a file that may not be changed")
    if any(n is not loss and _is_loss(n) for n in other.walk(function) if n is not settings):
        raise DeclinedError("what computes the loss has other losses, which a parameter would leave as they are")
    if _NAME in other.taken(function) or _is_overridden(tree, other, function) or function.decorator_list:
        raise DeclinedError("what computes the loss can't be given one more parameter")
    return frozenset(
        {
            Parameter(spot_of(other, function), _NAME, '"mean"'),
            Keyword(spot_of(other, settings), _NAME, _NAME),
            Keyword(spot_of(tree, call), _NAME, '"sum"'),
        }
    )


def _is_averaged(tree: Tree, call: ast.Call) -> bool:
    """Whether a mean is taken of what a call gives: with `DataParallel` that is one loss of each replica."""
    home = tree.function_of(call)
    names: set[str] = set()
    for statement in sorted(
        (node for node in tree.walk(home) if isinstance(node, ast.Assign)), key=lambda node: node.lineno
    ):
        value = statement.value
        while isinstance(value, ast.Subscript | ast.Attribute):
            value = value.value
        if value is call or (isinstance(value, ast.Name) and value.id in names):
            names |= {n.id for target in statement.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    for node in tree.walk(home):
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr="mean"), args=[]):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="mean"), args=[of]):
                pass
            case _:
                continue
        if of is call or (isinstance(of, ast.Name) and of.id in names):
            return True
    return False


def _is_loss(node: ast.AST) -> bool:
    """Whether a node calls, or makes, a loss of PyTorch."""
    name = (spelled(node.func) or "").rpartition(".")[2] if isinstance(node, ast.Call) else ""
    return name in FUNCTIONS or name in MODULES


def _default(function: ast.FunctionDef, name: str) -> object:
    spec = function.args
    places = [*spec.posonlyargs, *spec.args]
    given = dict(zip((a.arg for a in places[len(places) - len(spec.defaults) :]), spec.defaults, strict=True))
    given |= {a.arg: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None}
    default = given.get(name)
    return default.value if isinstance(default, ast.Constant) else None


def _is_only_returned(other: Tree, function: ast.FunctionDef, loss: ast.Call) -> bool:
    """Whether the loss, under whatever names, goes nowhere but into what the function returns."""
    names: set[str] = set()
    carried: list[ast.expr] = [loss]
    while carried:
        node = carried.pop()
        statement = other.statement_of(node)
        match statement:
            case ast.Return():
                continue
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_linear(other, value, node):
                bound = {name}
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value) if _is_linear(other, value, node):
                bound = {name}
            case ast.If() | ast.While() if _is_test(other, node):
                continue
            case _:
                return False
        for name in bound - names:
            names.add(name)
            carried += [r for r in other.reads(function, name) if r.lineno > node.lineno]
    return True


def _is_linear(other: Tree, value: ast.expr, node: ast.expr) -> bool:
    """Whether a value is the loss, or a sum or a multiple of it."""
    here: ast.AST = node
    while here is not value:
        outer = other.parent(here)
        match outer:
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()) | ast.UnaryOp() | ast.IfExp():
                here = outer
            case ast.BinOp(op=ast.Div(), left=left) if left is here:
                here = outer
            case _:
                return False
    return True


def _is_test(other: Tree, node: ast.expr) -> bool:
    parent = other.parent(node)
    return isinstance(parent, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in parent.ops)


def _is_overridden(tree: Tree, other: Tree, function: ast.FunctionDef) -> bool:
    """Whether a class of the project that inherits a method has one of its own: that would not take the parameter."""
    owner = other.class_of(function)
    here = [node for node in other.walk(other.root) if isinstance(node, ast.ClassDef)]
    seen: set[str] = set()
    parents = [owner.name] if owner is not None else []
    while parents:
        parent = parents.pop()
        seen.add(parent)
        heirs = [cls for cls in here if parent in bases(cls)]
        for heir in (*heirs, *tree.derived(parent)):
            if any(isinstance(f, ast.FunctionDef) and f.name == function.name for f in heir.body):
                return True
            if heir.name not in seen:
                parents.append(heir.name)
    return False
