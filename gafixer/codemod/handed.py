"""A loss whose function is handed the window's count: the sum over that count, and the mean where none is given."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.codemod.averaged import labels_averaged
from gafixer.codemod.labels import labels_of
from gafixer.codemod.plan import DeclinedError, Insert, Keyword, Parameter, Spread, Where
from gafixer.codemod.returned import Leaf, Made, leaves, returned
from gafixer.codemod.scope import Handed, NotPerItemError, Scope, free
from gafixer.codemod.summing import by_items, statement_for, sums
from gafixer.codemod.tree import spelled, spot_of
from gafixer.data.transformers import COUNT

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["hand"]


def hand(scope: Scope, terms: Sequence[Leaf], whole: Sequence[ast.expr]) -> Handed:
    """Divide each term by the count. `whole` are the expressions that are the whole loss where it is returned.

    Raises:
        DeclinedError: a term can't be taken as a sum over what `Trainer` counts.
    """
    made = Handed()
    kinds: dict[Made, list[Leaf]] = {}
    for leaf in terms:
        kinds.setdefault(leaf.made, []).append(leaf)
    if not scope.own:
        _alike(scope, made, terms)
    for leaf in kinds.get(Made.SUPER, []):
        made.parts.add(Keyword(spot_of(scope.tree, leaf.call), COUNT, scope.count))
    if scope.factor and Made.SUPER in kinds and len(kinds) > 1:
        raise DeclinedError("the base class's loss is mixed with others")
    criteria = kinds.get(Made.CRITERION, [])
    if criteria:
        sums(scope, made, criteria, list(whole) if len(kinds) == 1 else [])
    by_hand = [*kinds.get(Made.MEAN, []), *kinds.get(Made.QUOTIENT, [])]
    if by_hand:
        by_items(scope, made, by_hand)
    for leaf in kinds.get(Made.CALL, []):
        _handed_on(scope, made, leaf)
    return made


def _alike(scope: Scope, made: Handed, terms: Sequence[Leaf]) -> None:
    """All terms must be means over the same labels.

    Raises:
        NotPerItemError: they aren't, or not over labels.
    """
    found = {labels_averaged(scope, leaf) for leaf in terms if leaf.made in {Made.CRITERION, Made.MEAN, Made.QUOTIENT}}
    if None in found:
        raise NotPerItemError("the loss is no mean over the labels that Trainer counts")
    if len(found) > 1:
        raise DeclinedError("its terms have denominators of their own")
    made.shifted = "shifted" in found


# -- handed on -------------------------------------------------------------------------------------------------------


def _handed_on(scope: Scope, made: Handed, leaf: Leaf) -> None:
    """A model, or a function that takes the count, divides by it itself."""
    tree = scope.tree
    spot = spot_of(tree, leaf.call)
    callee = spelled(leaf.call.func) or "the call"
    if _threaded(scope, made, leaf):
        return
    if _candidates(scope, leaf.call):
        raise DeclinedError(f"which of several is meant by `{callee}` is not in sight")
    if scope.spread:
        made.parts.add(Spread(spot, scope.spread))
        made.assumed.append(f"that `{callee}` divides by the count that it is handed")
        return
    last = callee.rpartition(".")[2].lower()
    if not last.endswith("model") and callee not in {"model", "self.model"}:
        raise DeclinedError(f"`{callee}` is not known to take the count")
    name = free(scope, "loss_kwargs")
    statement = statement_for(tree, leaf.call)
    code = f'{name} = {{}} if {scope.count} is None else {{"{COUNT}": {scope.count}}}'
    made.parts |= {Insert(spot_of(tree, statement), Where.BEFORE, code, 0), Spread(spot, name)}
    made.assumed.append(f"that the loss of `{callee}` is divided by the count that it is handed")
    made.owed = bool(scope.factor)


def _threaded(scope: Scope, made: Handed, leaf: Leaf) -> bool:
    """Hand the count to a function or method of the file, and let its loss be divided there."""
    tree = scope.tree
    function = _defined(scope, leaf.call)
    if function is None or function is scope.function:
        return False
    made.parts.add(Keyword(spot_of(tree, leaf.call), COUNT, scope.lookup or scope.count))
    made.owed = made.owed or bool(scope.factor)
    arguments = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    if COUNT in arguments:
        return True
    kinds = {
        name: labels_of(tree, scope.function, node, scope.labels) for name, node in _bindings(leaf.call, arguments)
    }
    names = frozenset(name for name, kind in kinds.items() if kind is not None)
    inner = hand(Scope(tree, function, COUNT, names), leaves(tree, function, returned(tree, function), names), [])
    made.parts |= inner.parts | {Parameter(spot_of(tree, function), COUNT, "None")}
    made.assumed += inner.assumed
    made.shifted = made.shifted or inner.shifted or "shifted" in kinds.values()
    return True


def _defined(scope: Scope, call: ast.Call) -> ast.FunctionDef | None:
    """The function of the file that a call runs, if there is only one that it may be."""
    found = _candidates(scope, call)
    return found[0] if len(found) == 1 else None


def _candidates(scope: Scope, call: ast.Call) -> list[ast.FunctionDef]:
    """The functions of the file that a call may run: of methods that of its own class, else all of its name."""
    match call.func:
        case ast.Name(id=name):
            return _named(scope.tree.root.body, name)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            own = scope.tree.class_of(scope.function)
            classes = [c for c in scope.tree.root.body if isinstance(c, ast.ClassDef)]
            return _named(own.body if own is not None else [], name) or [
                m for c in classes for m in _named(c.body, name)
            ]
        case _:
            return []


def _named(body: list[ast.stmt], name: str) -> list[ast.FunctionDef]:
    return [node for node in body if isinstance(node, ast.FunctionDef) and node.name == name]


def _bindings(call: ast.Call, arguments: list[str]) -> list[tuple[str, ast.expr]]:
    names = arguments[1:] if isinstance(call.func, ast.Attribute) else arguments
    return [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords if k.arg is not None)]
