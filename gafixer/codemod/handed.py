"""A loss whose function is handed the window's count: the sum over that count, and the mean where none is given."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gafixer.codemod.labels import counts_scored, labels_of, marks_scored
from gafixer.codemod.loss import spot_of
from gafixer.codemod.plan import DeclinedError, Insert, Keyword, Parameter, Replace, Spread, Where
from gafixer.codemod.returned import Leaf, Made, leaves, returned, settings_of
from gafixer.codemod.text import indent, with_arguments
from gafixer.codemod.tree import spelled
from gafixer.data.losses import FUNCTIONS, MODULES
from gafixer.data.transformers import COUNT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["Handed", "NotPerItemError", "Scope", "hand"]

#: A mean of these is one over the elements of its target.
_POINTWISE = frozenset(
    {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"}
)
_CLASSES = frozenset({"cross_entropy", "nll_loss"})


class NotPerItemError(DeclinedError):
    """The loss is no mean over what `Trainer` counts: no division by the count makes it right."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The function that makes the loss.

    `count` is the name that the window's count has in it; where it has to be looked up first, `lookup` is the code for
    that. `labels` are the parameters that hold them. `factor` is code, in lines, that is run where there is a count, on
    ``{loss}``: what the function owes several ranks.
    """

    tree: Tree
    function: ast.FunctionDef
    count: str
    labels: frozenset[str]
    lookup: str = ""
    factor: tuple[str, ...] = ()
    spread: str = ""


@dataclass(slots=True)
class Handed:
    """What is to be done: `shifted` says that the loss drops the first label of each row."""

    parts: set[Part] = field(default_factory=set)
    assumed: list[str] = field(default_factory=list)
    shifted: bool = False
    owed: bool = False


def hand(scope: Scope, terms: Sequence[Leaf], whole: Sequence[ast.expr]) -> Handed:
    """Divide each term by the count. `whole` are the expressions that are the whole loss where it is returned.

    Raises:
        DeclinedError: a term can't be taken as a sum over what `Trainer` counts.
    """
    made = Handed()
    kinds: dict[Made, list[Leaf]] = {}
    for leaf in terms:
        kinds.setdefault(leaf.made, []).append(leaf)
    _alike(scope, made, terms)
    for leaf in kinds.get(Made.SUPER, []):
        made.parts.add(Keyword(spot_of(scope.tree, leaf.call), COUNT, scope.count))
    if scope.factor and Made.SUPER in kinds and len(kinds) > 1:
        raise DeclinedError("the base class's loss is mixed with others")
    criteria = kinds.get(Made.CRITERION, [])
    if criteria:
        _sums(scope, made, criteria, list(whole) if len(kinds) == 1 else [])
    by_hand = [*kinds.get(Made.MEAN, []), *kinds.get(Made.QUOTIENT, [])]
    if by_hand:
        _by_items(scope, made, by_hand)
    for leaf in kinds.get(Made.CALL, []):
        _handed_on(scope, made, leaf)
    return made


def _alike(scope: Scope, made: Handed, terms: Sequence[Leaf]) -> None:
    """All terms must be means over the same labels.

    Raises:
        NotPerItemError: they aren't, or not over labels.
    """
    found = {_counted(scope, leaf) for leaf in terms if leaf.made in {Made.CRITERION, Made.MEAN, Made.QUOTIENT}}
    if None in found:
        raise NotPerItemError("the loss is no mean over the labels that Trainer counts")
    if len(found) > 1:
        raise DeclinedError("its terms have denominators of their own")
    made.shifted = "shifted" in found


def _counted(scope: Scope, leaf: Leaf) -> str | None:
    tree, function, names = scope.tree, scope.function, scope.labels
    match leaf.made, leaf.node:
        case Made.QUOTIENT, ast.BinOp(right=right):
            return counts_scored(tree, function, right, names)
        case Made.MEAN, node:
            kept = _kept(node)
            return marks_scored(tree, function, kept, names) if kept is not None else None
        case _:
            return _criterion_counted(scope, leaf.call)


def _kept(node: ast.expr) -> ast.expr | None:
    """The mask in ``x[mask].mean()``."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="mean"), args=[inner]):
            pass
        case ast.Call(func=ast.Attribute(value=inner, attr="mean")):
            pass
        case _:
            return None
    match inner:
        case ast.Subscript(slice=ast.Name() | ast.Call() | ast.Compare() as mask):
            return mask
        case ast.Call(func=ast.Attribute(attr="masked_select"), args=[mask]):
            return mask
        case _:
            return None


def _criterion_counted(scope: Scope, call: ast.Call) -> str | None:
    """How the labels are counted by a loss of PyTorch.

    Raises:
        DeclinedError: its settings are not in sight, or give it a denominator of its own.
    """
    settings = settings_of(scope.tree, scope.function, call)
    assert settings is not None
    name = _name(settings)
    words = {k.arg: k.value for k in (*settings.keywords, *call.keywords)}
    if None in words or any(isinstance(a, ast.Starred) for a in (*settings.args, *call.args)):
        raise DeclinedError("the loss gets settings by * or **")
    reduction = words.get("reduction")
    if isinstance(reduction, ast.Constant) and reduction.value != "mean":
        raise DeclinedError("it is not in sight how the loss is averaged")
    if name in _CLASSES:
        if (
            _given(words.get("weight"))
            or (settings is call and len(call.args) > 2)
            or (settings is not call and settings.args)
        ):
            raise NotPerItemError("class weights give the loss a denominator of its own")
        if not _is_default(words.get("ignore_index")):
            raise NotPerItemError("the loss ignores another label than Trainer does")
    elif name not in _POINTWISE:
        raise NotPerItemError(f"{name} is no mean over the labels that Trainer counts")
    target = words.get("target") or (call.args[1] if len(call.args) > 1 else None)
    if target is None:
        raise DeclinedError("the targets of the loss are not in sight")
    return labels_of(scope.tree, scope.function, target, scope.labels)


def _name(settings: ast.Call) -> str:
    last = (spelled(settings.func) or "").rpartition(".")[2]
    return MODULES[last].name if last in MODULES else FUNCTIONS[last].name


def _given(node: ast.expr | None) -> bool:
    return node is not None and not (isinstance(node, ast.Constant) and node.value is None)


def _is_default(node: ast.expr | None) -> bool:
    return node is None or ast.unparse(node) == "-100"


# -- criteria --------------------------------------------------------------------------------------------------------


def _sums(scope: Scope, made: Handed, criteria: Sequence[Leaf], whole: Sequence[ast.expr]) -> None:
    """Let the losses sum where there is a count, and divide by it."""
    tree = scope.tree
    names = {spelled(node) for node in whole}
    loss = next(iter(names)) if len(names) == 1 else None
    bound: dict[str, list[ast.stmt]] = {}
    optional: set[str] = set()
    used: list[ast.stmt] = []
    for leaf in criteria:
        statement = _statement(tree, leaf.node)
        settings = settings_of(tree, scope.function, leaf.call)
        assert settings is not None
        inside = tree.function_of(settings) is scope.function
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_choice(value, leaf.node):
                bound.setdefault(name, []).append(statement)
                optional |= {name} if value is not leaf.node else set()
                if inside:
                    made.parts.add(Keyword(spot_of(tree, settings), "reduction", "reduction"))
            case _:
                _always(tree, leaf.node, statement)
                name = _free(scope, "loss", "item_loss")
                code = with_arguments(
                    tree, leaf.node, {settings: "reduction=reduction"} if settings is leaf.call else {}
                )
                if inside and settings is not leaf.call:
                    made.parts.add(Keyword(spot_of(tree, settings), "reduction", "reduction"))
                where = spot_of(tree, statement)
                made.parts |= {
                    Insert(where, Where.BEFORE, f"{name} = {code}", 2),
                    Replace(spot_of(tree, leaf.node), name),
                }
                last = any(node is leaf.node for node in whole)
                made.parts.add(Insert(where, Where.BEFORE, _division(scope, name, last=last), 3))
                made.owed = made.owed or bool(scope.factor and not last)
        if inside:
            used.append(_statement(tree, settings))
        else:
            _twin(scope, made, leaf, settings)
        used.append(statement)
    anchor = _first(tree, used)
    if any(isinstance(p, Keyword) and p.code == "reduction" for p in made.parts) or any(
        isinstance(p, Insert) and "reduction=reduction" in p.code for p in made.parts
    ):
        if "reduction" in tree.taken(scope.function):
            raise DeclinedError("the function has a `reduction` of its own")
        made.parts.add(
            Insert(spot_of(tree, anchor), Where.BEFORE, f'reduction = "mean" if {scope.count} is None else "sum"', 1)
        )
    if scope.lookup:
        made.parts.add(Insert(spot_of(tree, anchor), Where.BEFORE, f"{scope.count} = {scope.lookup}", 0))
    for name, statements in bound.items():
        end = statements[0] if len(statements) == 1 else _joined(tree, name, statements)
        made.parts.add(
            Insert(
                spot_of(tree, end), Where.AFTER, _division(scope, name, last=name == loss, optional=name in optional), 1
            )
        )
        made.owed = made.owed or bool(scope.factor and name != loss)


def _is_choice(value: ast.expr, node: ast.expr) -> bool:
    """Whether a value is the loss, or the loss or None."""
    match value:
        case ast.IfExp(body=body, orelse=ast.Constant(value=None)):
            return body is node
        case ast.IfExp(body=ast.Constant(value=None), orelse=orelse):
            return orelse is node
        case _:
            return value is node


def _always(tree: Tree, node: ast.expr, statement: ast.stmt) -> None:
    """What is computed before its statement must be computed in any case.

    Raises:
        DeclinedError: the statement computes it in some cases only.
    """
    for outer in tree.around(node):
        if outer is statement:
            return
        if isinstance(outer, ast.IfExp | ast.BoolOp | ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.DictComp):
            raise DeclinedError("the loss is made in a part of an expression that is not always evaluated")


def _division(scope: Scope, name: str, *, last: bool, optional: bool = False) -> str:
    """Where there is a count, divide by it; what is the whole loss also gets what it owes several ranks."""
    margin = indent(scope.tree)
    given = f"{name} is not None and {scope.count}" if optional else scope.count
    lines = [f"if {given} is not None:", f"{margin}{name} = {name} / {scope.count}"]
    if last:
        lines += [f"{margin}{line.format(loss=name, indent=margin)}" for line in scope.factor]
    return "\n".join(lines) + "\n"


def _statement(tree: Tree, node: ast.expr) -> ast.stmt:
    statement = tree.statement_of(node)
    if statement is None or not isinstance(statement, ast.Assign | ast.AugAssign | ast.Return | ast.Expr):
        raise DeclinedError("the loss is made in the head of a block")
    if not tree.alone(statement):
        raise DeclinedError(f"the statement in line {statement.lineno} shares its line with another")
    return statement


def _chain(tree: Tree, statement: ast.stmt) -> list[ast.stmt]:
    """A statement and those around it, outermost first."""
    return [n for n in tree.around(statement) if isinstance(n, ast.stmt)][::-1]


def _common(tree: Tree, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """For each statement, the one that it is in in the innermost block that has them all."""
    for candidate in reversed(_chain(tree, statements[0])):
        block = tree.block(candidate)
        inside = [tree.within(s, block) for s in statements]
        if all(s is not None for s in inside):
            return [s for s in inside if s is not None]
    raise DeclinedError("the losses have no block in common")


def _first(tree: Tree, statements: Sequence[ast.stmt]) -> ast.stmt:
    return min(_common(tree, statements), key=lambda s: s.lineno)


def _joined(tree: Tree, name: str, statements: Sequence[ast.stmt]) -> ast.stmt:
    """The statement after which a name that several branches bind may be divided."""
    last = max(_common(tree, statements), key=lambda s: s.lineno)
    own = {id(s) for s in statements}
    for node in tree.names(last):
        inside = tree.statement_of(node)
        if node.id == name and isinstance(node.ctx, ast.Load) and id(inside) not in own and not _is_test(tree, node):
            raise DeclinedError("the losses of several branches are used before they meet")
    if len({id(s) for s in _common(tree, statements)}) > 1:
        raise DeclinedError("a loss is made twice")
    return last


def _is_test(tree: Tree, node: ast.Name) -> bool:
    return isinstance(tree.parent(node), ast.Compare)


def _twin(scope: Scope, made: Handed, leaf: Leaf, settings: ast.Call) -> None:
    """A criterion that `__init__` made gets a second one beside it, which sums."""
    tree = scope.tree
    key = spelled(leaf.call.func)
    there = tree.statement_of(settings)
    if key is None or not isinstance(there, ast.Assign) or there.value is not settings or not tree.alone(there):
        raise DeclinedError("the criterion is made where it can't be told to sum")
    prefix, _, last = key.rpartition(".")
    twin = f"{prefix}.sum_{last}"
    name = _free(scope, last, f"{last}_now")
    code = with_arguments(tree, settings, {settings: 'reduction="sum"'})
    made.parts.add(Insert(spot_of(tree, there), Where.AFTER, f"{twin} = {code}"))
    statement = _statement(tree, leaf.node)
    choice = f"{name} = {key} if {scope.count} is None else {twin}"
    made.parts |= {
        Insert(spot_of(tree, statement), Where.BEFORE, choice, 1),
        Replace(spot_of(tree, leaf.call.func), name),
    }


def _free(scope: Scope, *names: str) -> str:
    taken = scope.tree.taken(scope.function)
    found = next((n for n in names if n not in taken), None)
    if found is None:
        raise DeclinedError(f"the function has a `{names[0]}` of its own")
    return found


# -- by hand ---------------------------------------------------------------------------------------------------------


def _by_items(scope: Scope, made: Handed, terms: Sequence[Leaf]) -> None:
    """Sums divided by the window's count, or by the microbatch's own where there is none."""
    tree = scope.tree
    name = _free(scope, "items", "num_scored")
    counts: dict[str, list[ast.stmt]] = {}
    for leaf in terms:
        statement = _statement(tree, leaf.node)
        match leaf.made, leaf.node:
            case Made.QUOTIENT, ast.BinOp(right=right):
                counts.setdefault(tree.text(right), []).append(statement)
                made.parts.add(Replace(spot_of(tree, right), name))
            case _:
                mask = _kept(leaf.node)
                assert mask is not None
                own = (
                    tree.text(mask) if isinstance(mask, ast.Name | ast.Attribute | ast.Call) else f"({tree.text(mask)})"
                )
                counts.setdefault(f"{own}.sum()", []).append(statement)
                assert isinstance(leaf.node, ast.Call)
                values = leaf.node.args[0] if leaf.node.args else leaf.node.func.value  # type: ignore[attr-defined] # `x.mean()`
                code = f"{tree.text(values)}.sum() / {name}"
                bare = isinstance(tree.parent(leaf.node), ast.Assign | ast.Return | ast.keyword)
                made.parts.add(Replace(spot_of(tree, leaf.node), code if bare else f"({code})"))
    if len(counts) > 1:
        raise DeclinedError("its terms have denominators of their own")
    ((own, statements),) = counts.items()
    anchor = spot_of(tree, _first(tree, statements))
    if scope.lookup and not any(isinstance(p, Insert) and scope.lookup in p.code for p in made.parts):
        made.parts.add(Insert(anchor, Where.BEFORE, f"{scope.count} = {scope.lookup}", 0))
    made.parts.add(Insert(anchor, Where.BEFORE, f"{name} = {own} if {scope.count} is None else {scope.count}", 1))
    made.owed = bool(scope.factor)


# -- handed on -------------------------------------------------------------------------------------------------------


def _handed_on(scope: Scope, made: Handed, leaf: Leaf) -> None:
    """A model, or a function that takes the count, divides by it itself."""
    tree = scope.tree
    spot = spot_of(tree, leaf.call)
    callee = spelled(leaf.call.func) or "the call"
    if _threaded(scope, made, leaf):
        return
    if scope.spread:
        made.parts.add(Spread(spot, scope.spread))
        made.assumed.append(f"that `{callee}` divides by the count that it is handed")
        return
    last = callee.rpartition(".")[2].lower()
    if not last.endswith("model") and callee not in {"model", "self.model"}:
        raise DeclinedError(f"`{callee}` is not known to take the count")
    name = _free(scope, "loss_kwargs")
    statement = _statement(tree, leaf.call)
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
    """The function of the file that a call runs, if there is only one of its name."""
    match call.func:
        case ast.Name(id=name):
            found = [n for n in scope.tree.root.body if isinstance(n, ast.FunctionDef) and n.name == name]
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            methods = [n for c in scope.tree.root.body if isinstance(c, ast.ClassDef) for n in c.body]
            found = [n for n in methods if isinstance(n, ast.FunctionDef) and n.name == name]
        case _:
            return None
    return found[0] if len(found) == 1 else None


def _bindings(call: ast.Call, arguments: list[str]) -> list[tuple[str, ast.expr]]:
    names = arguments[1:] if isinstance(call.func, ast.Attribute) else arguments
    return [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords if k.arg is not None)]
