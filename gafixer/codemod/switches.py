"""Switches that tell `Trainer` who divides, in the releases that the project means."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.analysis import requirements
from gafixer.codemod.loss import spot_of
from gafixer.codemod.plan import DeclinedError, Insert, Where
from gafixer.codemod.text import indent
from gafixer.codemod.tree import spelled
from gafixer.data.transformers import Division

if TYPE_CHECKING:
    from gafixer.analysis.requirements import Target
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["after_init", "divided_again", "in_body", "plain_mean"]

#: The release from which on a model's own switch is looked at.
MODEL_SWITCH = "4.50"
_OFFICIAL = "5.19"


def plain_mean(tree: Tree, cls: ast.ClassDef, target: Target) -> frozenset[Part]:
    """Tell `Trainer` that a loss is a mean over its microbatch: it divides by the number of microbatches then.

    Raises:
        DeclinedError: the releases that are meant have no such switch.
    """
    if target.division is Division.NOBODY:
        raise DeclinedError(f"{target.name} has no switch that makes Trainer divide")
    if target.said is not None and requirements.since(target.releases[0], _OFFICIAL):
        return in_body(tree, cls, "loss_is_scaled_for_ga = False")
    return after_init(tree, cls, "self.model_accepts_loss_kwargs = False") | divided_again(tree, cls, target)


def divided_again(tree: Tree, cls: ast.ClassDef, target: Target) -> frozenset[Part]:
    """From 5.2 to 5.5.3 Accelerate divides what `Trainer` has divided: it is told that a window is one microbatch."""
    if target.division is not Division.TRAINER_AND_ACCELERATE:
        return frozenset()
    comment = "# Trainer of 5.2 to 5.5.3 lets Accelerate divide by the steps once more."
    return after_init(tree, cls, f"{comment}\nself.accelerator.gradient_accumulation_steps = 1")


def after_init(tree: Tree, cls: ast.ClassDef, code: str) -> frozenset[Part]:
    """A statement after the base class's `__init__`, which sets all switches anew.

    Raises:
        DeclinedError: the class's own `__init__` does not call it.
    """
    init = next((n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    if init is not None:
        for statement in init.body:
            if isinstance(statement, ast.Expr) and _is_init(statement.value):
                return frozenset({Insert(spot_of(tree, statement), Where.AFTER, code)})
        raise DeclinedError("the class's __init__ does not call its base class's")
    first = next((n for n in cls.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)), None)
    if first is None:
        raise DeclinedError("the class has no method of its own")
    margin = indent(tree)
    lines = [
        "def __init__(self, *args, **kwargs):",
        f"{margin}super().__init__(*args, **kwargs)",
        *(f"{margin}{line}" for line in code.split("\n")),
    ]
    return frozenset({Insert(spot_of(tree, first), Where.BEFORE, "\n".join(lines) + "\n", -1)})


def _is_init(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="__init__", value=ast.Call(func=ast.Name(id="super")))):
            return True
        case ast.Call(func=ast.Attribute(attr="__init__", value=base)):
            return spelled(base) is not None
        case _:
            return False


def in_body(tree: Tree, cls: ast.ClassDef, code: str) -> frozenset[Part]:
    """A statement among the class's own, after those that are there."""
    last: ast.stmt | None = None
    for statement in cls.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) or (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        ):
            last = statement
        else:
            break
    if last is not None:
        return frozenset({Insert(spot_of(tree, last), Where.AFTER, code)})
    return frozenset({Insert(spot_of(tree, cls.body[0]), Where.BEFORE, code)})
