"""What a term of a loss is a mean over: the labels that `Trainer` counts, or something else."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.codemod.labels import counts_scored, labels_of, marks_scored
from gafixer.codemod.plan import DeclinedError
from gafixer.codemod.returned import Leaf, Made, settings_of
from gafixer.codemod.scope import NotPerItemError, Scope
from gafixer.codemod.tree import spelled
from gafixer.data.losses import FUNCTIONS, MODULES

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CLASSES", "POINTWISE", "Criterion", "criterion", "kept", "labels_averaged"]

#: A mean of these is one over the elements of its target.
POINTWISE = frozenset(
    {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"}
)
#: Of these, one over the classes that are not ignored, each by its weight.
CLASSES = frozenset({"cross_entropy", "nll_loss"})


@dataclass(frozen=True, slots=True)
class Criterion:
    """A call of a loss of PyTorch, and what it is given: `settings` is the call that says how it reduces."""

    name: str
    call: ast.Call
    settings: ast.Call
    words: Mapping[str | None, ast.expr]
    target: ast.expr | None

    @property
    def weight(self) -> ast.expr | None:
        """The class weights."""
        placed = None
        if self.settings is not self.call and self.settings.args:
            placed = self.settings.args[0]
        elif self.settings is self.call and len(self.call.args) > 2:
            placed = self.call.args[2]
        return next((w for w in (self.words.get("weight"), placed) if _given(w)), None)


def criterion(scope: Scope, call: ast.Call) -> Criterion:
    """A call of a loss that averages.

    Raises:
        DeclinedError: its settings are not in sight, or are others.
    """
    settings = settings_of(scope.tree, scope.function, call)
    assert settings is not None
    words = {k.arg: k.value for k in (*settings.keywords, *call.keywords)}
    if None in words or any(isinstance(a, ast.Starred) for a in (*settings.args, *call.args)):
        raise DeclinedError("the loss gets settings by * or **")
    reduction = words.get("reduction")
    if reduction is not None and not (isinstance(reduction, ast.Constant) and reduction.value == "mean"):
        raise DeclinedError("it is not in sight how the loss is averaged")
    target = words.get("target") or (call.args[1] if len(call.args) > 1 else None)
    return Criterion(_name(settings), call, settings, words, target)


def labels_averaged(scope: Scope, leaf: Leaf) -> str | None:
    """How the labels are counted that a term is a mean over: "whole", "shifted", or None if it is no mean over them.

    Raises:
        DeclinedError: its settings are not in sight, or give it a denominator of its own.
    """
    tree, function, names = scope.tree, scope.function, scope.labels
    match leaf.made, leaf.node:
        case Made.QUOTIENT, ast.BinOp(right=right):
            return counts_scored(tree, function, right, names)
        case Made.MEAN, node:
            mask = kept(node)
            return marks_scored(tree, function, mask, names) if mask is not None else None
        case _:
            return _of_criterion(scope, criterion(scope, leaf.call))


def _of_criterion(scope: Scope, made: Criterion) -> str | None:
    if made.name in CLASSES:
        if made.weight is not None:
            raise NotPerItemError("class weights give the loss a denominator of its own")
        if not _is_default(made.words.get("ignore_index")):
            raise NotPerItemError("the loss ignores another label than Trainer does")
    elif made.name not in POINTWISE:
        raise NotPerItemError(f"{made.name} is no mean over the labels that Trainer counts")
    if made.target is None:
        raise DeclinedError("the targets of the loss are not in sight")
    return labels_of(scope.tree, scope.function, made.target, scope.labels)


def kept(node: ast.expr) -> ast.expr | None:
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


def _name(settings: ast.Call) -> str:
    last = (spelled(settings.func) or "").rpartition(".")[2]
    return MODULES[last].name if last in MODULES else FUNCTIONS[last].name


def _given(node: ast.expr | None) -> bool:
    return node is not None and not (isinstance(node, ast.Constant) and node.value is None)


def _is_default(node: ast.expr | None) -> bool:
    return node is None or ast.unparse(node) == "-100"
