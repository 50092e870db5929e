"""A window that steps elsewhere than it goes backward: in a base class of another file, or where a function is called.

An object carries the count of its items to the base class that steps. It is an attribute of that class, 0 until a loss
is counted: a subclass that nobody changed divides its gradients by nothing, as before. Who calls a function that goes
backward counts by what it gives that function.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.codemod.carried import bases, is_method
from gafixer.codemod.chain import Step, bring
from gafixer.codemod.count import is_pure, unparsed
from gafixer.codemod.plan import DeclinedError, Insert, Where
from gafixer.codemod.tree import spelled, spot_of
from gafixer.codemod.window import Layout, event_statement, guarded, loop_of

if TYPE_CHECKING:
    from gafixer.analysis.site import Site
    from gafixer.codemod.tree import Tree

__all__ = ["Stepping", "stepping"]


@dataclass(frozen=True, slots=True)
class Stepping:
    """The file that steps, and the statements there: its layout has another one in the place of backward.

    That is the step, or the one that calls the function which goes backward, by `called`.
    """

    tree: Tree
    place: Layout
    called: Step | None = None

    def counted(self, tree: Tree, backward: ast.stmt, window: str, count: str) -> Insert:
        """Count beside the call, by what it gives the function.

        Raises:
            DeclinedError: what is counted is made in the function.
        """
        assert self.called is not None
        node = ast.parse(count, mode="eval").body
        for part in ast.walk(node):
            if isinstance(part, ast.expr):
                part.lineno = backward.lineno  # it is read there
        made = bring(tree, node, [self.called])
        if not is_pure(made):
            raise DeclinedError("counting the items would compute them twice")
        return Insert(spot_of(self.tree, self.place.backward), Where.BEFORE, f"{window} += {unparsed(made)}", 1)


def stepping(tree: Tree, site: Site, place: Layout) -> Stepping | None:
    """Where a window steps, if not beside backward.

    Raises:
        DeclinedError: what steps is not known, or in a file that may not be changed.
    """
    step = site.window.step
    if step is None or place.step is not None:
        return None
    other = tree if step.spot.path == tree.path else tree.beside(step.spot.path)
    if other is None:
        raise DeclinedError(f"the step is in {step.spot.path}, which is not among the files that are scanned")
    if isinstance(tree.parent(place.home), ast.Module):
        return _calling(tree, other, site, place.home)
    if other is tree:
        return None
    return _in_base(tree, other, site, place)


def _in_base(tree: Tree, other: Tree, site: Site, place: Layout) -> Stepping:
    assert site.window.step is not None
    call = other.expression(site.window.step.spot)
    statement = other.statement(site.window.step.spot)
    if not isinstance(call, ast.Call) or statement is None:
        raise DeclinedError("the step is not in sight")
    function, owner, runner = other.function_of(call), other.class_of(call), tree.class_of(place.home)
    if owner is None or runner is None or not (is_method(owner, function) and is_method(runner, place.home)):
        raise DeclinedError("the step and backward are not methods of one object")
    if owner.name not in bases(runner):
        raise DeclinedError("the step is not in a base class of the one that runs backward")
    assert isinstance(function, ast.FunctionDef)
    _refuse_overridden(tree, runner.name, function.name)
    guard, block = guarded(other, site)
    return Stepping(other, Layout(function, statement, call, None, guard, block, statement, owner, apart=True))


def _calling(tree: Tree, other: Tree, site: Site, function: ast.AST) -> Stepping:
    """The one place that calls a function which goes backward, beside the step."""
    assert isinstance(function, ast.FunctionDef)
    assert site.window.step is not None
    calls = [n for n in other.walk(other.root) if isinstance(n, ast.Call) and _last(n.func) == function.name]
    if len(calls) != 1 or function.decorator_list:
        raise DeclinedError(f"`{function.name}` goes backward for several callers")
    (call,) = calls
    home, statement = other.function_of(call), other.statement_of(call)
    step, loop = event_statement(other, site.window.step, home), loop_of(other, site)
    guard, block = guarded(other, site)
    if statement is None or step is None or loop is None or not other.contains(loop, call):
        raise DeclinedError("the window is spread over several functions")
    if any(other.function_of(n) is not home for n in (loop, guard) if n is not None) or not other.alone(statement):
        raise DeclinedError("the window is spread over several functions")
    called = Step(function, call, foreign=other is not tree)
    return Stepping(other, Layout(home, statement, call, loop, guard, block, step), called)


def _last(node: ast.expr) -> str:
    return (spelled(node) or "").rpartition(".")[2]


def _refuse_overridden(tree: Tree, name: str, method: str) -> None:
    """A subclass that steps by itself would step gradients that nobody has divided.

    Raises:
        DeclinedError: there is one.
    """
    seen = {name}
    names = [name]
    while names:
        for cls in tree.derived(names.pop()):
            if any(isinstance(node, ast.FunctionDef) and node.name == method for node in cls.body):
                raise DeclinedError(f"the subclass {cls.name} steps by itself")
            names += {cls.name} - seen
            seen.add(cls.name)
