"""What a loss that is divided by the count of all processes owes them, as their gradients are averaged."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.codemod.plan import DeclinedError, Insert, Replace, Spread, Where
from gafixer.codemod.text import indent, with_arguments
from gafixer.codemod.tree import spelled, spot_of
from gafixer.data.transformers import COUNT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.codemod.scope import Handed
    from gafixer.codemod.tree import Tree

__all__ = ["FACTOR", "pay"]

#: Lines that pay it where the loss has just been divided.
FACTOR = (
    "if {self}.args.average_tokens_across_devices:",
    "{indent}# The count is that of all processes, and their gradients are averaged.",
    "{indent}{loss} = {loss} * {self}.accelerator.num_processes",
)


def pay(tree: Tree, function: ast.FunctionDef, made: Handed, whole: Sequence[ast.expr], own: str) -> None:
    """What the whole loss owes several ranks, right before it is returned.

    Raises:
        DeclinedError: several losses are returned.
    """
    returns = [r for r in tree.walk(function) if isinstance(r, ast.Return) and tree.function_of(r) is function]
    first = min(
        (s for r in returns if any(tree.contains(r, w) for w in whole) and (s := tree.within(r, function.body))),
        key=lambda s: s.lineno,
    )
    if len({tree.text(node) for node in whole}) != 1:
        raise DeclinedError("what is returned is not one and the same loss")
    spot = spot_of(tree, first)
    name = spelled(whole[0])
    if not isinstance(whole[0], ast.Name):
        name = "loss"
        if name in tree.taken(function):
            raise DeclinedError("the function has a `loss` of its own beside the one that it returns")
        done = {p.code for p in made.parts for w in whole if isinstance(p, Replace) and p.spot == spot_of(tree, w)}
        if done:
            made.parts -= {p for p in made.parts if isinstance(p, Replace) and p.code in done}
        inner = {spot_of(tree, c): c for c in ast.walk(whole[0]) if isinstance(c, ast.Call)}
        spreads = {p for p in made.parts if isinstance(p, Spread) and p.spot in inner}
        if any(not isinstance(p, Insert | Spread) and p.spot in inner for p in made.parts) or (
            spreads and len(whole) > 1
        ):
            raise DeclinedError("the loss is made where it is returned")
        made.parts -= spreads
        code = with_arguments(tree, whole[0], {inner[p.spot]: f"**{p.name}" for p in spreads})
        if done:
            (code,) = done
            code = code[1:-1] if code.endswith(")") else code  # what stood in a larger expression
        made.parts.add(Insert(spot, Where.BEFORE, f"{name} = {code}", 5))
        made.parts |= {Replace(spot_of(tree, node), name) for node in whole}
    margin = indent(tree)
    code = (
        f"if {COUNT} is not None and {own}.args.average_tokens_across_devices:\n"
        f"{margin}# The count is that of all processes, and their gradients are averaged.\n"
        f"{margin}{name} = {name} * {own}.accelerator.num_processes\n"
    )
    made.parts.add(Insert(spot, Where.BEFORE, code, 6))
