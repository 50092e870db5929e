"""The function that makes a loss, what of the window's count it has, and what is to be done to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gafixer.codemod.plan import DeclinedError

if TYPE_CHECKING:
    import ast

    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["Handed", "NotPerItemError", "Scope", "free"]


class NotPerItemError(DeclinedError):
    """The loss is no mean over what `Trainer` counts: no division by that count makes it right."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The function that makes the loss.

    `count` is the name that the window's count has in it; where it has to be looked up first, `lookup` is the code for
    that. `labels` are the parameters that hold them. `factor` is code, in lines, that is run where there is a count, on
    ``{loss}``: what the function owes several ranks. `own` says that the count is of what the loss itself divides by.
    """

    tree: Tree
    function: ast.FunctionDef
    count: str
    labels: frozenset[str]
    lookup: str = ""
    factor: tuple[str, ...] = ()
    spread: str = ""
    own: bool = False


@dataclass(slots=True)
class Handed:
    """What is to be done: `shifted` says that the loss drops the first label of each row."""

    parts: set[Part] = field(default_factory=set)
    assumed: list[str] = field(default_factory=list)
    shifted: bool = False
    owed: bool = False


def free(scope: Scope, *names: str) -> str:
    """A name that the function does not have yet: the first of these.

    Raises:
        DeclinedError: it has them all.
    """
    taken = scope.tree.taken(scope.function)
    found = next((n for n in names if n not in taken), None)
    if found is None:
        raise DeclinedError(f"the function has a `{names[0]}` of its own")
    return found
