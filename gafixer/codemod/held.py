"""A loss function that a name or an attribute holds: itself, or inside a wrapper that only divides what it returns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.codemod.plan import DeclinedError, Replace
from gafixer.codemod.tree import is_docstring, spelled, spot_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.codemod.tree import Tree

__all__ = ["calls_of_held", "unwrapped", "uses_of_held"]


def calls_of_held(tree: Tree, name: str) -> list[ast.Call]:
    """The calls that run a function under another name than its own, which nothing else is ever bound to."""
    found = ((use, tree.parent(use)) for use in uses_of_held(tree, name))
    return [call for use, call in found if isinstance(call, ast.Call) and call.func is use]


def uses_of_held(tree: Tree, name: str) -> list[ast.expr]:
    """The places where such another name of a function is read."""
    held: dict[str, bool] = {}
    for key, value in _bindings(tree):
        held[key] = held.get(key, True) and _is_function(tree, value, name)
    return [node for key, alone in held.items() if alone for node in tree.reads(tree.root, key)]


def _bindings(tree: Tree) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.walk(tree.root):
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                key = spelled(target)
                if key is not None:
                    yield key, value
            case _:
                pass


def _is_function(tree: Tree, value: ast.expr, name: str) -> bool:
    """Whether a value is a function, or a wrapper around it that hands all arguments on."""
    match value:
        case ast.Name(id=held):
            return held == name
        case ast.Call(func=ast.Name(id=wrapper), args=[ast.Name(id=held), *_]):
            return held == name and _divider(tree, wrapper) is not None
        case _:
            return False


def _divider(tree: Tree, name: str) -> ast.FunctionDef | None:
    """A function of the file that returns a function which divides what another one returns, and does nothing else."""
    found = [n for n in tree.root.body if isinstance(n, ast.FunctionDef) and n.name == name]
    if len(found) != 1 or found[0].decorator_list or not found[0].args.args:
        return None
    match [s for s in found[0].body if not is_docstring(s)]:
        case [ast.FunctionDef(name=inner) as wrapper, ast.Return(value=ast.Name(id=returned))] if inner == returned:
            return found[0] if _divides(wrapper, found[0].args.args[0].arg) else None
        case _:
            return None


def _divides(wrapper: ast.FunctionDef, function: str) -> bool:
    match [s for s in wrapper.body if not is_docstring(s)]:
        case [ast.Return(value=ast.BinOp(left=ast.Call(func=ast.Name(id=called)) as call, op=ast.Div() | ast.Mult()))]:
            return called == function and _given(call) == _taken(wrapper)
        case _:
            return False


def _taken(function: ast.FunctionDef) -> list[str]:
    spec = function.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    names += [f"*{spec.vararg.arg}"] if spec.vararg is not None else []
    names += [f"{a.arg}=" for a in spec.kwonlyargs]
    return names + ([f"**{spec.kwarg.arg}"] if spec.kwarg is not None else [])


def _given(call: ast.Call) -> list[str]:
    names = [ast.unparse(a) for a in call.args]
    for keyword in call.keywords:
        code = ast.unparse(keyword.value)
        names.append(f"**{code}" if keyword.arg is None else f"{keyword.arg}={'' if code == keyword.arg else code}")
    return names


def unwrapped(tree: Tree, division: ast.AST) -> Replace | None:
    """Hold the function itself where a division is all that its wrapper does; None where there is no such wrapper.

    Raises:
        DeclinedError: several losses are wrapped so.
    """
    inner = tree.function_of(division)
    outer = tree.function_of(inner) if isinstance(inner, ast.FunctionDef) else None
    if not isinstance(outer, ast.FunctionDef) or _divider(tree, outer.name) is not outer:
        return None
    uses = [n for n in tree.names(tree.root) if n.id == outer.name]
    calls = [call for use in uses if isinstance(call := tree.parent(use), ast.Call) and call.func is use]
    match calls:
        case [ast.Call(args=[ast.Name(id=name), *_]) as call] if len(uses) == 1:
            return Replace(spot_of(tree, call), name)
        case [] if len(uses) == 1:  # a decorator: what it decorates keeps it
            return None
        case _:
            raise DeclinedError(f"`{outer.name}` divides more than this loss")
