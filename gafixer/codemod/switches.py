"""Switches that tell `Trainer` who divides, in the releases that the project means."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.analysis import requirements
from gafixer.codemod.loss import spot_of
from gafixer.codemod.plan import DeclinedError, Insert, Where
from gafixer.codemod.text import indent
from gafixer.codemod.tree import is_docstring, spelled
from gafixer.data.transformers import Division

if TYPE_CHECKING:
    from gafixer.analysis.requirements import Target
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["after_init", "divided_again", "divided_by_count", "in_body", "plain_mean", "refuse_again"]

#: The release from which on a model's own switch is looked at.
MODEL_SWITCH = "4.50"
_OFFICIAL = "5.19"
_ONCE = """\
# Trainer of 5.2 to 5.5.3 lets Accelerate divide by the steps once more.
self.accelerator.gradient_accumulation_steps = 1"""


def plain_mean(tree: Tree, cls: ast.ClassDef, target: Target) -> frozenset[Part]:
    """Tell `Trainer` that a loss is a mean over its microbatch: it divides by the number of microbatches then.

    Raises:
        DeclinedError: the releases that are meant have no such switch.
    """
    if target.division is Division.NOBODY:
        raise DeclinedError(f"{target.name} has no switch that makes Trainer divide")
    if target.said is not None and requirements.since(target.releases[0], _OFFICIAL):
        return in_body(tree, cls, "loss_is_scaled_for_ga = False")
    again = (_ONCE,) if target.division is Division.TRAINER_AND_ACCELERATE else ()
    return after_init(tree, cls, "self.model_accepts_loss_kwargs = False", *again)


def divided_by_count(tree: Tree, cls: ast.ClassDef, target: Target) -> frozenset[Part]:
    """Tell `Trainer` that a loss is divided by the count, whatever the model takes: it divides by nothing then."""
    if target.division is Division.NOBODY:
        return frozenset()
    if target.said is not None and requirements.since(target.releases[0], _OFFICIAL):
        return in_body(tree, cls, "loss_is_scaled_for_ga = True")
    again = (_ONCE,) if target.division is Division.TRAINER_AND_ACCELERATE else ()
    return after_init(tree, cls, "self.model_accepts_loss_kwargs = True", *again)


def refuse_again(target: Target) -> None:
    """What `Trainer` itself calls can't keep Accelerate from dividing.

    Raises:
        DeclinedError: the release that is meant lets it.
    """
    if target.division is Division.TRAINER_AND_ACCELERATE:
        reason = "lets Accelerate divide once more: import gafixer.patch, or require 5.5.4 or later"
        raise DeclinedError(f"{target.name} {reason}")


def divided_again(tree: Tree, cls: ast.ClassDef, target: Target) -> frozenset[Part]:
    """From 5.2 to 5.5.3 Accelerate divides what `Trainer` has divided: it is told that a window is one microbatch."""
    if target.division is not Division.TRAINER_AND_ACCELERATE:
        return frozenset()
    return after_init(tree, cls, _ONCE)


def after_init(tree: Tree, cls: ast.ClassDef, *code: str) -> frozenset[Part]:
    """Statements after the base class's `__init__`, which sets all switches anew.

    Raises:
        DeclinedError: the class's own `__init__` does not call it.
    """
    init = next((n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    if init is not None:
        for statement in init.body:
            if isinstance(statement, ast.Expr) and _is_init(statement.value):
                where = spot_of(tree, statement)
                return frozenset(Insert(where, Where.AFTER, line, rank) for rank, line in enumerate(code))
        raise DeclinedError("the class's __init__ does not call its base class's")
    first = next((n for n in cls.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)), None)
    if first is None:
        raise DeclinedError("the class has no method of its own")
    margin = indent(tree)
    lines = [
        "def __init__(self, *args, **kwargs):",
        f"{margin}super().__init__(*args, **kwargs)",
        *(f"{margin}{line}" for text in code for line in text.split("\n")),
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
        # What follows a docstring stands apart from it.
        return frozenset({Insert(spot_of(tree, last), Where.AFTER, f"\n{code}" if is_docstring(last) else code)})
    return frozenset({Insert(spot_of(tree, cls.body[0]), Where.BEFORE, code)})
