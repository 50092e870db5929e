"""From a loss to the function that runs backward: the calls between, and expressions in words of the outermost one."""

from __future__ import annotations

import ast
import copy
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.codemod.count import SAME, is_pure
from gafixer.codemod.held import calls_of_held, uses_of_held
from gafixer.codemod.plan import DeclinedError
from gafixer.codemod.tree import spelled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gafixer.codemod.tree import Function, Tree

__all__ = ["Step", "bring", "callers", "calls_of", "climb"]


@dataclass(frozen=True, slots=True)
class Step:
    """One call on the way from a loss to the function that runs backward; `foreign`: into another file.

    `spread` are the parameters that a ``**`` of the call is known to give. A dict that is given is `whole` where the
    expression goes: what the function takes out of it by ``pop`` or ``get`` can be looked up there.
    """

    function: ast.FunctionDef | ast.AsyncFunctionDef
    call: ast.Call
    foreign: bool = False
    spread: frozenset[str] = frozenset()
    whole: bool = False


def climb(tree: Tree, node: ast.AST, home: Function) -> tuple[tuple[Step, ...], ast.AST]:
    """The calls that lead from a node to a function, innermost first, and the node of that function.

    Raises:
        DeclinedError: it is not the only way.
    """
    steps: list[Step] = []
    for _ in range(4):
        function = tree.function_of(node)
        if function is home:
            return tuple(steps), node
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            break
        calls = calls_of(tree, function)
        here = [c for c in calls if tree.function_of(c) is home] or calls
        if len(here) != 1:
            break
        steps.append(Step(function, here[0]))
        node = here[0]
    raise DeclinedError("the way from the loss to backward is not a single chain of calls in this file")


def calls_of(tree: Tree, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.Call]:
    """The calls in a file that may run a function, those in itself left out."""
    found = []
    for node in tree.walk(tree.root):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name == function.name:
                found.append(node)
            case ast.Call(func=ast.Attribute(attr=name)) if name == function.name:
                found.append(node)
            case _:
                pass
    return [call for call in (*found, *calls_of_held(tree, function.name)) if not tree.contains(function, call)]


def callers(tree: Tree, function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many places of the file mention a function; of one that is held under another name, those that read that."""
    mentions = sum(1 for node in tree.walk(tree.root) if (spelled(node) or "").rpartition(".")[2] == function.name)
    return max(mentions, len(uses_of_held(tree, function.name)))


def bring(tree: Tree, expression: ast.expr, steps: Sequence[Step]) -> ast.expr:
    """An expression of the innermost function in words of the outermost one.

    Raises:
        DeclinedError: it depends on what only the inner function has.
    """
    made = expression
    for step in steps:
        made = _brought(tree, made, step)
    return made


def _brought(tree: Tree, expression: ast.expr, step: Step) -> ast.expr:
    given = _arguments(step)
    expression = _Lookup().visit(copy.deepcopy(expression)) if step.whole else expression
    return _Substitute(tree, step, given).visit(copy.deepcopy(expression))  # type: ignore[no-any-return] # NodeTransformer is untyped


class _Substitute(ast.NodeTransformer):
    """Puts what a call gives in the place of parameters, and what names were made of in theirs."""

    def __init__(self, tree: Tree, step: Step, given: dict[str, ast.expr]) -> None:
        self._tree, self._step, self._given = tree, step, given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name that only the inner function knows."""
        made = _reaching(self._tree, self._step.function, node)
        made = _Lookup().visit(copy.deepcopy(made)) if made is not None and self._step.whole else made
        if made is not None and is_pure(made):
            return self.visit(copy.deepcopy(made))  # type: ignore[no-any-return] # NodeTransformer is untyped
        if made is None and node.id in self._given:
            return copy.deepcopy(self._given[node.id])
        if made is None and (node.id == "torch" or (not self._step.foreign and self._tree.is_global(node.id))):
            return node
        raise DeclinedError(f"`{node.id}` is not known where backward runs")


class _Lookup(ast.NodeTransformer):
    """``inputs.pop("labels")`` as ``inputs["labels"]``."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Look an entry up."""
        self.generic_visit(node)
        match node:
            case ast.Call(
                func=ast.Attribute(value=base, attr="pop" | "get"), args=[ast.Constant(value=str()) as key, *_]
            ):
                return ast.copy_location(ast.Subscript(base, key, ast.Load()), node)
            case _:
                return node


def _reaching(tree: Tree, function: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.Name) -> ast.expr | None:
    """What a name was made of where it is read; None where it is still what the function was given.

    Raises:
        DeclinedError: it depends on the way that was taken there.
    """
    before = [s for s in tree.assignments(function, node.id) if (s.end_lineno or s.lineno) < node.lineno]
    for statement in reversed(before):
        if _keeps(statement, node.id):
            continue
        block = tree.block(statement)
        if not block[0].lineno <= node.lineno <= (block[-1].end_lineno or 0):
            if _other_arm(tree, statement, node):
                continue
            values = [_value(s, node.id) for s in before]
            if None in values or len({ast.dump(v) for v in values if v is not None}) > 1:
                raise DeclinedError(f"`{node.id}` is not known where backward runs")
        value = _value(statement, node.id)
        if value is None or any(isinstance(n, ast.For | ast.While) for n in _inside(tree, statement, function)):
            raise DeclinedError(f"`{node.id}` is not known where backward runs")
        return value
    return None


def _other_arm(tree: Tree, statement: ast.stmt, node: ast.Name) -> bool:
    """Whether a statement is in an arm of a condition that is not taken where a name is read in the other arm."""
    parent = tree.parent(statement)
    return isinstance(parent, ast.If) and parent.lineno < node.lineno <= (parent.end_lineno or 0)


def _inside(tree: Tree, statement: ast.stmt, function: ast.AST) -> Iterator[ast.AST]:
    return itertools.takewhile(lambda n: n is not function, tree.around(statement))


def _value(statement: ast.stmt, name: str) -> ast.expr | None:
    """What an assignment gives a name."""
    match statement:
        case ast.Assign(targets=[ast.Name()], value=value):
            return value
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(values):
            return next(v for t, v in zip(targets, values, strict=True) if spelled(t) == name)
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Name() as whole) if all(
            isinstance(t, ast.Name) for t in targets
        ):
            position = next(i for i, t in enumerate(targets) if spelled(t) == name)
            return ast.copy_location(ast.Subscript(whole, ast.Constant(position), ast.Load()), whole)
        case _:
            return None


def _keeps(statement: ast.stmt, name: str) -> bool:
    """Whether an assignment only reshapes what the name was: ``targets = targets.reshape(-1)``."""
    match statement:
        case ast.Assign(targets=[ast.Name()], value=ast.Call(func=ast.Attribute(value=ast.Name(id=same), attr=attr))):
            return same == name and attr in SAME
        case _:
            return False


def _arguments(step: Step) -> dict[str, ast.expr]:
    """Parameter -> what the call gives for it."""
    spec, call = step.function.args, step.call
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    given: dict[str, ast.expr] = dict(zip(names[len(names) - len(spec.defaults) :], spec.defaults, strict=True))
    given |= {a.arg: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None}
    given = {name: default for name, default in given.items() if isinstance(default, ast.Constant | ast.UnaryOp)}
    if names and names[0] == "self":
        names = names[1:]
        if isinstance(call.func, ast.Attribute) and not step.foreign:
            given["self"] = call.func.value
    spread = [k.value for k in call.keywords if k.arg is None]
    if len(spread) == 1 and step.spread:
        given = {name: default for name, default in given.items() if name not in names}
        given |= {n: ast.Subscript(spread[0], ast.Constant(n), ast.Load()) for n in names if n in step.spread}
    elif any(isinstance(a, ast.Starred) for a in call.args) or spread:
        raise DeclinedError("the loss gets its arguments by * or **")
    given |= dict(zip(names, call.args, strict=False))
    given |= {k.arg: k.value for k in call.keywords if k.arg is not None}
    return given
