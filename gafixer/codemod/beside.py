"""Terms beside the loss over the items, such as a router's: each keeps its mean over the window's microbatches."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gafixer.codemod.count import is_pure
from gafixer.codemod.loss import spot_of
from gafixer.codemod.plan import DeclinedError, Insert, Remove, Replace, Where
from gafixer.codemod.tree import spelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.analysis.site import Division, LossTerm
    from gafixer.analysis.spot import Spot
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree
    from gafixer.codemod.window import Layout

__all__ = ["Apart", "apart"]

_NAMES = ("item_loss", "main_loss")


@dataclass(frozen=True, slots=True)
class Apart:
    """A loss taken apart where it goes backward: code for the part over the items, and for each term beside it."""

    items: str
    beside: tuple[str, ...]
    parts: frozenset[Part]


def apart(
    tree: Tree, place: Layout, value: ast.expr, divisions: Sequence[Division], beside: Sequence[LossTerm]
) -> Apart:
    """Take a loss apart; `divisions` are those that are dropped.

    Raises:
        DeclinedError: it is not a plain sum, or its terms are not known where it goes backward.
    """
    taken = tree.taken(place.home)
    name = next((n for n in _NAMES if n not in taken), None)
    if name is None:
        raise DeclinedError(f"the function has a `{_NAMES[0]}` of its own")
    adder = _Adder(tree, place, frozenset(d.spot for d in divisions if d.spot is not None), name)
    leaves = adder.leaves(value, place.backward.lineno)
    keys = [_key(term) for term in beside]
    found = [leaf for leaf in leaves if any(_mentions(tree, place, leaf, key) for key in keys)]
    rest = [leaf for leaf in leaves if leaf not in found]
    if len(found) != len(beside) or not rest:
        raise DeclinedError("the terms beside the loss can't be told apart where it goes backward")
    if any(not is_pure(leaf) or adder.changed(leaf) for leaf in found):
        raise DeclinedError("a term beside the loss is not known where it goes backward")
    named = adder.named(rest)
    main = named[0] if len(named) == 1 else f"({' + '.join(named)})"
    return Apart(main, tuple(_factor(tree, leaf) for leaf in found), frozenset(adder.parts))


def _key(term: LossTerm) -> str:
    part = term.atom.part
    return part if isinstance(part, str) else term.atom.name.rpartition(".")[2]


def _mentions(tree: Tree, place: Layout, leaf: ast.expr, key: str) -> bool:
    """Whether a term is, or is made of, what is called so."""
    if key in ast.unparse(leaf):
        return True
    for name in tree.names(leaf):
        made = [s for s in tree.assignments(place.home, name.id) if s.lineno < place.backward.lineno]
        if len(made) == 1 and isinstance(made[0], ast.Assign) and key in ast.unparse(made[0]):
            return True
    return False


def _factor(tree: Tree, leaf: ast.expr) -> str:
    text = tree.text(leaf)
    plain = isinstance(leaf, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    return text if plain or (isinstance(leaf, ast.BinOp) and isinstance(leaf.op, ast.Mult)) else f"({text})"


@dataclass(slots=True)
class _Adder:
    """Follows a sum back through the names that hold it."""

    tree: Tree
    place: Layout
    dropped: frozenset[Spot]
    name: str
    parts: set[Part] = field(default_factory=set)

    def leaves(self, node: ast.expr, line: int) -> list[ast.expr]:
        """The terms that an expression in a line adds up."""
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return [*self.leaves(left, line), *self.leaves(right, line)]
            case ast.BinOp(left=left, op=ast.Div()) if spot_of(self.tree, node) in self.dropped:
                return self.leaves(left, line)
            case ast.Name(id=name):
                found = self._held(name, line)
                return found if len(found) > 1 else [node]
            case _:
                return [node]

    def _held(self, name: str, line: int) -> list[ast.expr]:
        """The terms that a name holds; none where it is not known what it was made of."""
        found: list[ast.expr] = []
        for statement in self._made(name, line):
            match statement:
                case _ if self._is_dropped(statement):
                    pass
                case ast.Assign(targets=[ast.Name()], value=value):
                    self._sure(statement)
                    found = self.leaves(value, statement.lineno)
                case ast.AugAssign(op=ast.Add(), value=value) if found:
                    self._sure(statement)
                    found = [*found, *self.leaves(value, statement.lineno)]
                    self._out_of_place(statement)
                case ast.AugAssign():
                    raise DeclinedError("the loss is changed on its way to backward")
                case _:
                    found = []
        return found

    def _made(self, name: str, line: int) -> list[ast.stmt]:
        """The statements that gave a name what it holds in a line, the one that began it first."""
        made = [s for s in self.tree.assignments(self.place.home, name) if s.lineno < line]
        begun = [i for i, s in enumerate(made) if isinstance(s, ast.Assign) and not self._is_dropped(s)]
        return made[begun[-1] :] if begun else made

    def _is_dropped(self, statement: ast.stmt) -> bool:
        """Whether a statement only divides by what is not divided by any more."""
        if spot_of(self.tree, statement) in self.dropped:
            return True
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(left=left) as value):
                return spelled(left) == name and spot_of(self.tree, value) in self.dropped
            case _:
                return False

    def _sure(self, statement: ast.stmt) -> None:
        if not self.tree.dominated(self.place.backward, [statement]) or not self.tree.alone(statement):
            raise DeclinedError("the loss has a term beside it on some ways only")

    def _out_of_place(self, statement: ast.AugAssign) -> None:
        """``loss += aux`` would change the tensor that the loss over the items is."""
        spot = spot_of(self.tree, statement)
        target = self.tree.text(statement.target)
        code = f"{target} = {target} + {self.tree.text(statement.value)}"
        self.parts |= {Remove(spot), Insert(spot, Where.AFTER, code)}

    def changed(self, leaf: ast.expr) -> bool:
        """Whether a name in a term holds something else by the time that backward runs."""
        return any(self._changes(name) for name in self.tree.names(leaf))

    def _changes(self, name: ast.Name) -> list[ast.stmt]:
        own = self.tree.statement_of(name)
        assert own is not None
        made = self.tree.assignments(self.place.home, name.id)
        return [s for s in made if own.lineno <= s.lineno < self.place.backward.lineno and not self._is_dropped(s)]

    def named(self, rest: Sequence[ast.expr]) -> list[str]:
        """Code for terms where backward runs; what is not known there gets a name where it is made."""
        if all(is_pure(leaf) and not self.changed(leaf) for leaf in rest):
            return [self.tree.text(leaf) for leaf in rest]
        if len(rest) > 1:
            raise DeclinedError("the loss is not known where backward runs")
        (leaf,) = rest
        statement = self.tree.statement_of(leaf)
        assert statement is not None
        if not self.tree.alone(statement):
            raise DeclinedError("the loss is not known where backward runs")
        self.parts.add(Insert(spot_of(self.tree, statement), Where.BEFORE, f"{self.name} = {self.tree.text(leaf)}", 0))
        if not isinstance(leaf, ast.Name):
            self.parts.add(Replace(spot_of(self.tree, leaf), self.name))
        return [self.name]
