"""Heads of the user's own: the count that their forward takes reaches the loss."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gafixer.analysis import requirements
from gafixer.analysis.flow import Honours, Maker
from gafixer.codemod.handed import hand
from gafixer.codemod.loss import spot_of
from gafixer.codemod.plan import DeclinedError, Plan, Replace, Spread
from gafixer.codemod.returned import leaves, returned
from gafixer.codemod.scope import NotPerItemError, Scope
from gafixer.codemod.switches import MODEL_SWITCH, after_init, in_body, refuse_again
from gafixer.codemod.tree import spelled
from gafixer.data.transformers import COUNT, LOSS_TYPES
from gafixer.findings import Applicability

if TYPE_CHECKING:
    from gafixer.analysis.flow import LossCall
    from gafixer.analysis.heads import HeadSite
    from gafixer.analysis.requirements import Target
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["mend"]

_MESSAGE = "Divide the loss by the window's number of items"
_LOSS_TYPES = re.compile("|".join(LOSS_TYPES))
#: Their loss shifts the labels, and from 5.10 on Trainer counts them shifted.
_SHIFTING = frozenset({"ForCausalLM", "ForConditionalGeneration"})
_SHIFTED_COUNT = "5.10"
#: The release that began to hand models a count, by a parameter called `loss_kwargs`; then by any `**kwargs`.
_FIRST, _ANY_KWARGS = "4.46", "4.47"


def mend(tree: Tree, head: HeadSite, codes: set[str], target: Target) -> Plan:
    """The plan for a head.

    Raises:
        DeclinedError: its loss can't be divided by the count.
    """
    cls = next((n for n in tree.root.body if isinstance(n, ast.ClassDef) and n.lineno == head.spot.row), None)
    forward = next((n for n in tree.walk(tree.root) if _starts(n, head)), None)
    if cls is None or not isinstance(forward, ast.FunctionDef):
        raise DeclinedError("the loss is made in a class of another file")
    if "GA304" in codes and head.flag is not None and not head.flag.value:
        statement = tree.statement(head.flag.spot)
        if not isinstance(statement, ast.Assign):
            raise DeclinedError("the switch is set elsewhere")
        flipped: frozenset[Part] = frozenset({Replace(spot_of(tree, statement.value), "True")})
        return Plan(flipped, Applicability.UNSAFE, "Let the switch say what the loss does")
    _refuse_uncounted(head, target)
    refuse_again(target)
    try:
        return _divided(tree, head, forward, target)
    except NotPerItemError as reason:
        if head.flag is not None or not requirements.since(target.newest, MODEL_SWITCH):
            raise
        parts = in_body(tree, cls, "accepts_loss_kwargs = False")
        return Plan(parts, Applicability.UNSAFE, f"Tell Trainer that this loss is a plain mean ({reason})")


def _refuse_uncounted(head: HeadSite, target: Target) -> None:
    """A release that hands the head no count leaves it nothing to divide by.

    Raises:
        DeclinedError: the releases that are meant are such.
    """
    counts = requirements.since(target.newest, _ANY_KWARGS) or (
        requirements.since(target.newest, _FIRST) and head.kwargs == "loss_kwargs"
    )
    if not counts:
        raise DeclinedError(f"Trainer of {target.name} hands this head no count to divide by")


def _starts(node: ast.AST, head: HeadSite) -> bool:
    return isinstance(node, ast.FunctionDef) and (node.lineno, node.col_offset) == (
        head.forward.row,
        head.forward.column,
    )


def _divided(tree: Tree, head: HeadSite, forward: ast.FunctionDef, target: Target) -> Plan:
    dropped = [call for call in head.losses if call.honours is Honours.NO]
    if not dropped or head.kwargs is None:
        raise DeclinedError("the library's loss takes the count for some problem types only")
    if all(call.maker is Maker.LIBRARY and tree.expression(call.spot) is not None for call in dropped):
        return _passed(tree, head, dropped)
    names = frozenset({"labels"})
    found = leaves(tree, forward, returned(tree, forward), names)
    found = [leaf for leaf in found if not _has_count(head, spot_of(tree, leaf.call).row)]
    if not found:
        raise DeclinedError("the loss could not be followed")
    count, lookup = (COUNT, "") if head.named else (_free(tree, forward), f'{head.kwargs}.get("{COUNT}")')
    made = hand(Scope(tree, forward, count, names, lookup, spread=head.kwargs), found, returned(tree, forward))
    parts, assumed = made.parts, made.assumed
    if made.shifted and head.library:
        owner = tree.class_of(forward)
        assert owner is not None
        parts |= _loss_type(tree, owner)
        if target.said is None or not requirements.since(target.releases[0], _SHIFTED_COUNT):
            assumed.append(f"Transformers {_SHIFTED_COUNT} or later, which counts shifted labels")
    if assumed:
        return Plan(frozenset(parts), Applicability.UNSAFE, f"{_MESSAGE}, assuming {' and '.join(assumed)}")
    return Plan(frozenset(parts), Applicability.SAFE, _MESSAGE)


def _has_count(head: HeadSite, row: int) -> bool:
    return any(call.honours is Honours.YES and call.spot.row == row for call in head.losses)


def _passed(tree: Tree, head: HeadSite, dropped: list[LossCall]) -> Plan:
    """The library's own loss divides by the count once it gets it."""
    assert head.kwargs is not None
    parts = set()
    for call in dropped:
        node = tree.expression(call.spot)
        if not isinstance(node, ast.Call) or any(k.arg is None for k in node.keywords):
            raise DeclinedError("the call of the loss could not be located")
        if spelled(node.func) is None:
            raise DeclinedError("the call of the loss could not be located")
        parts.add(Spread(call.spot, head.kwargs))
    return Plan(frozenset(parts), Applicability.SAFE, f"Hand **{head.kwargs} on to the loss")


def _free(tree: Tree, forward: ast.FunctionDef) -> str:
    taken = tree.taken(forward)
    found = next((name for name in ("num_items", COUNT) if name not in taken), None)
    if found is None:
        raise DeclinedError("the forward has a num_items of its own")
    return found


def _loss_type(tree: Tree, cls: ast.ClassDef) -> frozenset[Part]:
    """Let Trainer count the labels shifted.

    Raises:
        DeclinedError: the class says that its loss is of another type.
    """
    said = [
        n for n in tree.walk(cls) if isinstance(n, ast.Assign) and (spelled(n.targets[0]) or "").endswith("loss_type")
    ]
    if said:
        kind = said[-1].value
        if isinstance(kind, ast.Constant) and kind.value in _SHIFTING:
            return frozenset()
        raise DeclinedError("the class names a type of loss that does not shift its labels")
    match = _LOSS_TYPES.search(cls.name)
    if match is not None and match[0] in _SHIFTING:
        return frozenset()
    return after_init(tree, cls, 'self.loss_type = "ForCausalLM"')
