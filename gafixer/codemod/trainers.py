"""Overrides of a Trainer's parts: they take the window's count, and the loss is divided by it."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from gafixer.analysis.flow import Honours
from gafixer.analysis.overrides import Kind
from gafixer.codemod.handed import hand
from gafixer.codemod.loss import spot_of
from gafixer.codemod.owed import FACTOR, pay
from gafixer.codemod.own_count import count_of, counting
from gafixer.codemod.plan import DeclinedError, Insert, Keyword, Move, Parameter, Plan, Remove, Replace, Rewrite, Where
from gafixer.codemod.returned import Leaf, Made, is_super, leaves, returned
from gafixer.codemod.scope import Handed, NotPerItemError, Scope
from gafixer.codemod.switches import after_init, divided_again, divided_by_count, plain_mean, refuse_again
from gafixer.codemod.text import indent
from gafixer.codemod.tree import is_docstring, spelled
from gafixer.data.transformers import COUNT, LABELS, Division
from gafixer.findings import Applicability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.analysis.overrides import OverrideSite
    from gafixer.analysis.requirements import Target
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["mend"]

_DIVIDE = "Divide the loss by the window's number of items"


def mend(tree: Tree, site: OverrideSite, codes: set[str], target: Target) -> Plan:
    """The plan for an override.

    Raises:
        DeclinedError: the loss can't be divided, or the releases that are meant hand over no count.
    """
    function = _function(tree, site)
    if "GA304" in codes:
        return _flipped(tree, site, function)
    taken = _taken(tree, site, function)
    if target.division is Division.ACCELERATE and site.name != "get_batch_samples":
        raise DeclinedError(f"Trainer of {target.name} hands over no count to divide by")
    return _mended(tree, site, function, taken, target)


def _mended(tree: Tree, site: OverrideSite, function: ast.FunctionDef, taken: frozenset[Part], target: Target) -> Plan:
    if site.name == "get_batch_samples":
        if not site.missing:
            return _read_again(tree, function, target)
        name = site.missing[0][0]
        return Plan(taken | _on_to_super(tree, function, name), Applicability.SAFE, f"Take {name}")
    if site.name == "training_step":
        return _step(tree, site, function, taken, target)
    try:
        return _divided(tree, site, function, taken, target)
    except DeclinedError as reason:
        return _left_to_trainer(tree, site, function, taken, target, reason)


def _function(tree: Tree, site: OverrideSite) -> ast.FunctionDef:
    for node in tree.walk(tree.root):
        if isinstance(node, ast.FunctionDef) and (node.lineno, node.col_offset) == (site.spot.row, site.spot.column):
            return node
    raise DeclinedError("the override could not be located")


def _taken(tree: Tree, site: OverrideSite, function: ast.FunctionDef) -> frozenset[Part]:
    """Let the override have the count under its own name."""
    name = site.missing[0][0] if site.missing else COUNT
    if site.taken == COUNT and not site.missing:
        return frozenset()
    spot = spot_of(tree, function)
    caught = function.args.kwarg.arg if function.args.kwarg is not None else None
    if caught is not None and tree.reads(function, caught):
        if COUNT in {n.value for n in tree.walk(function) if isinstance(n, ast.Constant)}:
            raise DeclinedError(f"the override looks into {caught} itself")
        first = next(s for s in function.body if not is_docstring(s))
        code = f'{COUNT} = {caught}.get("{COUNT}")'
        return frozenset({Insert(spot_of(tree, first), Where.BEFORE, code, -2)})
    if name in tree.taken(function):
        raise DeclinedError(f"the override has a {name} of its own")
    return frozenset({Parameter(spot, name, "None")})


def _on_to_super(tree: Tree, function: ast.FunctionDef, name: str) -> frozenset[Part]:
    """Hand an argument on in each call of the base class's method of the same name."""
    calls = [n for n in tree.walk(function) if isinstance(n, ast.Call) and is_super(n)]
    mine = [c for c in calls if (spelled(c.func) or ast.unparse(c.func)).endswith(f".{function.name}")]
    return frozenset(Keyword(spot_of(tree, c), name, name) for c in mine if not _gets(c, name))


def _read_again(tree: Tree, function: ast.FunctionDef, target: Target) -> Plan:
    """A window that is handed over without its count: the base class counts it, as it reads what was read."""
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    rest = [*names[3:], *([f"*{arguments.vararg.arg}"] if arguments.vararg is not None else [])]
    cls = tree.class_of(function)
    assert cls is not None
    parts = set(divided_again(tree, cls, target))
    for node in tree.walk(function):
        match node:
            case ast.Return(value=ast.Tuple(elts=[ast.Name(id=name), ast.Constant(value=None)])):
                given = ", ".join([f"iter({name})", f"len({name})", *rest])
                parts.add(Rewrite(spot_of(tree, node), f"return super().{function.name}({given})"))
            case ast.Return() if tree.function_of(node) is function:
                raise DeclinedError("what the window's items are is not in sight")
            case _:
                pass
    return Plan(frozenset(parts), Applicability.UNSAFE, "Let Trainer count the window's items")


def _gets(call: ast.Call, name: str) -> bool:
    return any(k.arg in {name, None} for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)


# -- training_step ---------------------------------------------------------------------------------------------------


def _step(tree: Tree, site: OverrideSite, function: ast.FunctionDef, taken: frozenset[Part], target: Target) -> Plan:
    """Hand the count on to `compute_loss`, or to the base class's step; where there is none, divide by the steps."""
    parts = set(taken | _on_to_super(tree, function, COUNT))
    own = [
        c
        for c in tree.walk(function)
        if isinstance(c, ast.Call) and spelled(c.func) == f"{_self(function)}.compute_loss"
    ]
    parts |= {Keyword(spot_of(tree, c), COUNT, COUNT) for c in own if not _gets(c, COUNT)}
    if len(parts) == len(taken) and not any(_gets(c, COUNT) for c in own):
        raise DeclinedError("the step makes a loss of its own")
    cls = tree.class_of(function)
    assert cls is not None
    parts |= divided_again(tree, cls, target)
    if not own:
        return Plan(frozenset(parts), Applicability.SAFE, "Hand the window's number of items on")
    if not site.divides:
        parts |= _without_count(tree, function)
    return Plan(
        frozenset(parts), Applicability.UNSAFE, f"{_DIVIDE}, assuming that compute_loss divides by what it gets"
    )


def _without_count(tree: Tree, function: ast.FunctionDef) -> set[Part]:
    """From 4.46 on nobody but the step itself divides a loss that had no count."""
    for node in tree.walk(function):
        match node:
            case (
                ast.Call(func=ast.Attribute(attr="backward"), args=[ast.Name(id=name), *_])
                | ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="backward"))
            ) if name not in {"torch"}:
                statement = tree.statement_of(node)
                assert statement is not None
                margin = indent(tree)
                steps = f"{_self(function)}.args.gradient_accumulation_steps"
                code = f"if {COUNT} is None:\n{margin}{name} = {name} / {steps}\n"
                outer = statement
                while tree.parent(outer) is not function and isinstance(up := tree.parent(outer), ast.stmt):
                    outer = up
                return {Insert(spot_of(tree, outer), Where.BEFORE, code)}
            case _:
                pass
    raise DeclinedError("the step's backward is not in sight")


def _self(function: ast.FunctionDef) -> str:
    return function.args.args[0].arg if function.args.args else "self"


# -- compute_loss and functions --------------------------------------------------------------------------------------


def _divided(tree: Tree, site: OverrideSite, function: ast.FunctionDef, taken: frozenset[Part], target: Target) -> Plan:
    whole = returned(tree, function)
    names = frozenset(a.arg for a in (*function.args.args, *function.args.kwonlyargs) if LABELS.search(a.arg))
    found = leaves(tree, function, whole, names)
    if not found:
        raise DeclinedError("the loss could not be followed")
    method = site.kind is Kind.METHOD
    if not method:
        refuse_again(target)
    own = _self(function)
    factor = tuple(line.replace("{self}", own) for line in FACTOR) if method else ()
    scope = Scope(tree, function, COUNT, names, factor=factor)
    kept = [leaf for leaf in found if not _has_count(site, leaf)]
    if not kept:
        raise DeclinedError("the loss could not be followed")
    cls = tree.class_of(function)
    try:
        made = hand(scope, kept, whole)
        beside = divided_again(tree, cls, target) if method and cls is not None else frozenset()
    except NotPerItemError as reason:
        try:
            if kept != found:
                raise reason
            made, beside = _counted(scope, site, kept, whole, target)
        except DeclinedError:
            raise reason from None
        made.assumed.append("that no two processes get the same batches")
    if made.owed:
        pay(tree, function, made, whole, own)
    parts = made.parts | taken | beside
    passed = all(leaf.made is Made.SUPER for leaf in kept)
    assumed = [
        *made.assumed,
        *(["that Trainer counts shifted labels, as for causal language models"] if made.shifted else []),
    ]
    message = "Hand the window's number of items on" if passed else _DIVIDE
    if assumed:
        return Plan(frozenset(parts), Applicability.UNSAFE, f"{message}, assuming {' and '.join(assumed)}")
    return Plan(frozenset(parts), Applicability.SAFE, message)


def _has_count(site: OverrideSite, leaf: Leaf) -> bool:
    """Whether a term is divided by the count already."""
    node = leaf.call
    return any(
        call.honours is Honours.YES and (call.spot.row, call.spot.column) == (node.lineno, node.col_offset)
        for call in site.losses
    )


def _counted(
    scope: Scope, site: OverrideSite, kept: Sequence[Leaf], whole: Sequence[ast.expr], target: Target
) -> tuple[Handed, frozenset[Part]]:
    """The division by a count of the Trainer's own, and what makes it: the loss scores something else than labels.

    Raises:
        DeclinedError: what the loss divides by can't be counted before the model has run.
    """
    cls = scope.tree.class_of(scope.function)
    if site.kind is not Kind.METHOD or cls is None or site.flags:
        raise DeclinedError("who divides is said elsewhere")
    own = replace(scope, own=True)
    parts = counting(own, cls, count_of(own, kept)) | divided_by_count(scope.tree, cls, target)
    return hand(own, kept, whole), parts


# -- switches --------------------------------------------------------------------------------------------------------


def _left_to_trainer(
    tree: Tree,
    site: OverrideSite,
    function: ast.FunctionDef,
    taken: frozenset[Part],
    target: Target,
    reason: DeclinedError,
) -> Plan:
    """A loss that can't be divided by the count: Trainer divides by the steps, as by its own rules for plain means."""
    cls = tree.class_of(function)
    here = any(tree.at(flag.spot) or flag.spot.path == tree.path for flag in site.flags)
    if site.kind is not Kind.METHOD or cls is None or here or any(c.honours is Honours.YES for c in site.losses):
        raise reason
    missing = {p for p in taken if isinstance(p, Parameter)} if site.missing else set()
    parts = plain_mean(tree, cls, target) | missing
    message = f"Tell Trainer that this loss is a plain mean ({reason}): a mean of the microbatches' means is left"
    return Plan(parts, Applicability.UNSAFE, message, left=frozenset({"GA101"}))


def _flipped(tree: Tree, site: OverrideSite, function: ast.FunctionDef) -> Plan:
    """Let a switch say what the loss does; one that `super().__init__` overwrites comes after it."""
    cls = tree.class_of(function)
    if cls is None:
        raise DeclinedError("the switch is set elsewhere")
    parts: set[Part] = set()
    for flag in site.lost:
        statement = tree.statement(flag.spot)
        if not isinstance(statement, ast.Assign) or not tree.alone(statement):
            raise DeclinedError("the switch is set elsewhere")
        inside = tree.function_of(statement)
        if isinstance(inside, ast.FunctionDef):
            (insert,) = after_init(tree, cls, "")
            parts.add(Move(spot_of(tree, statement), insert.spot, Where.AFTER))
        else:
            code = f"self.{ast.unparse(statement)}"
            parts |= {Remove(spot_of(tree, statement)), *after_init(tree, cls, code)}
    honours = {call.honours for call in site.losses}
    for flag in site.flags:
        statement = tree.statement(flag.spot)
        wanted = honours == {Honours.YES}
        if isinstance(statement, ast.Assign) and flag.value is not wanted and len(honours) == 1:
            parts.add(Replace(spot_of(tree, statement.value), str(wanted)))
    if not parts:
        raise DeclinedError("which of the losses the switch speaks of is yours to know")
    return Plan(frozenset(parts), Applicability.UNSAFE, "Let the switch say what the loss does")
