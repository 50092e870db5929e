"""A name that a division gives the loss for backward alone: the sum may go backward by it, or without it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis.events import EventKind
from gafixer.codemod.loss import spot_of
from gafixer.codemod.plan import Part, Remove, Replace
from gafixer.codemod.tree import spelled
from gafixer.codemod.window import Layout, event_statement

if TYPE_CHECKING:
    from gafixer.analysis.site import Division, Site
    from gafixer.analysis.spot import Spot
    from gafixer.codemod.tree import Tree

__all__ = ["Alias", "alias_of", "through_alias"]


@dataclass(frozen=True, slots=True)
class Alias:
    """``scaled = loss / steps``, where nothing but backward reads `name`: the statement, and what is divided in it."""

    name: str
    statement: ast.stmt
    division: Spot
    divided: ast.expr


def alias_of(tree: Tree, site: Site, place: Layout, division: Division) -> Alias | None:
    """The name that a division gives the loss for backward alone."""
    assert division.spot is not None
    statement = tree.statement(division.spot)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(left=left, op=ast.Div()) as value) if (
            spot_of(tree, value) == division.spot and spelled(left) not in {None, name} and division.via is None
        ):
            pass
        case _:
            return None
    backwards = [event_statement(tree, e, place.home) for e in site.happening(EventKind.BACKWARD)]
    reads = [tree.statement_of(read) for read in tree.reads(place.home, name)]
    changed = [s for s in tree.assignments(place.home, spelled(left) or "") if statement.lineno < s.lineno]
    if (
        len(tree.assignments(place.home, name)) > 1
        or any(read not in backwards for read in reads)
        or any(s.lineno < place.backward.lineno for s in changed)
        or not tree.alone(statement)
    ):
        return None
    return Alias(name, statement, division.spot, left)


def through_alias(tree: Tree, place: Layout, alias: Alias, own: str, *, boxed: bool) -> set[Part]:
    """Give the alias the sum; where the loss itself is one, it needs no other name."""
    if boxed:
        return {Replace(alias.division, f"{tree.text(alias.divided)} * {own}")}
    reads = [n for n in tree.names(place.call) if n.id == alias.name]
    parts: set[Part] = {Replace(spot_of(tree, read), tree.text(alias.divided)) for read in reads}
    return {*parts, Remove(spot_of(tree, alias.statement))}
