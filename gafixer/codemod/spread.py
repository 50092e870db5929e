"""A window whose step stands in a base class of another file: the object carries the count of its items there.

The count is an attribute of the class that steps, 0 until a loss is counted: a subclass that nobody changed divides its
gradients by nothing, as before.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.codemod.carried import bases, is_method
from gafixer.codemod.plan import DeclinedError
from gafixer.codemod.window import Layout, guarded

if TYPE_CHECKING:
    from gafixer.analysis.site import Site
    from gafixer.codemod.tree import Tree

__all__ = ["Stepping", "stepping"]


@dataclass(frozen=True, slots=True)
class Stepping:
    """The file that steps, and the statements there: its layout has the step in the place of backward."""

    tree: Tree
    place: Layout


def stepping(tree: Tree, site: Site, place: Layout) -> Stepping | None:
    """Where a window steps, if not in the file that runs backward.

    Raises:
        DeclinedError: that is no base class of the one that runs backward, or in a file that may not be changed.
    """
    step = site.window.step
    if step is None or place.step is not None or step.spot.path == tree.path:
        return None
    other = tree.beside(step.spot.path)
    if other is None:
        raise DeclinedError(f"the step is in {step.spot.path}, which is not among the files that are scanned")
    call = other.expression(step.spot)
    statement = other.statement(step.spot)
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


def _refuse_overridden(tree: Tree, name: str, method: str) -> None:
    """A subclass that steps by itself would step gradients that nobody has divided.

    Raises:
        DeclinedError: there is one.
    """
    for source, cls in tree.subclasses(name):
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and node.name == cls and _has(node, method):
                raise DeclinedError(f"the subclass {cls} steps by itself")


def _has(cls: ast.ClassDef, method: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == method for node in cls.body)
