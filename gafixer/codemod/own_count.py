"""A Trainer whose loss scores something else than `Trainer` counts: its windows get a count of their own.

`Trainer` counts those of ``labels`` that are not -100. Behind a collator that pads with another label, puts targets
under another key, or adds a mask, and for class weights, it has to be what the loss itself divides by.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.codemod.averaged import CLASSES, POINTWISE, criterion, kept
from gafixer.codemod.chain import Step, bring
from gafixer.codemod.count import atomic, divisor_count, is_pure, selected, stripped, unparsed
from gafixer.codemod.labels import bound
from gafixer.codemod.plan import DeclinedError, Insert, Where
from gafixer.codemod.returned import Made
from gafixer.codemod.text import indent, widest
from gafixer.codemod.tree import is_docstring, spelled, spot_of
from gafixer.data.transformers import COUNT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.codemod.averaged import Criterion
    from gafixer.codemod.plan import Part
    from gafixer.codemod.returned import Leaf
    from gafixer.codemod.scope import Scope

__all__ = ["count_of", "counting"]

_BATCH = "batch"
_METHOD = "get_batch_samples"
#: What puts class weights where the loss is; in the count they go where the targets are.
_PLACED = frozenset({"to", "cuda", "type_as"})
_THERE = ".to(targets.device)"


@dataclass(frozen=True, slots=True)
class PerBatch:
    """Code for a count, in words of `name`: a batch, or what `values` takes out of one."""

    code: str
    name: str = _BATCH
    values: str = ""

    def summed(self, margin: str, width: int) -> list[str]:
        """Statements that sum it over the window."""
        each = f"({self.values} for {_BATCH} in batch_samples)" if self.values else "batch_samples"
        line = f"{COUNT} = sum({self.code} for {self.name} in {each}).to(self.args.device)"
        if len(line) + 3 * len(margin) <= width:
            return [line]
        inner = [f"{margin}{self.code}", f"{margin}for {self.name} in {each}"]
        return [f"{COUNT} = sum(", *inner, ").to(self.args.device)"]


def counting(scope: Scope, cls: ast.ClassDef, count: PerBatch) -> frozenset[Part]:
    """A `get_batch_samples` that hands over the sum of a count over the window.

    Raises:
        DeclinedError: the class has one of its own.
    """
    if any(isinstance(n, ast.FunctionDef) and n.name == _METHOD for n in cls.body):
        raise DeclinedError(f"the class has a {_METHOD} of its own")
    margin = indent(scope.tree)
    lines = [
        f"def {_METHOD}(self, *args, **kwargs):",
        f"{margin}batch_samples, {COUNT} = super().{_METHOD}(*args, **kwargs)",
        f"{margin}if batch_samples:",
        f"{margin * 2}# What the loss divides by in one batch, over the window.",
        *(f"{margin * 2}{line}" for line in count.summed(margin, widest(scope.tree))),
        f"{margin * 2}if self.args.average_tokens_across_devices:",
        f"{margin * 3}{COUNT} = self.accelerator.gather({COUNT}).sum()",
        f"{margin}return batch_samples, {COUNT}",
    ]
    first = next(s for s in scope.function.body if not is_docstring(s))
    model = [*scope.function.args.posonlyargs, *scope.function.args.args][1].arg
    own = f"if not {model}.training:\n{margin}# In evaluation the count is Trainer's own.\n{margin}{COUNT} = None\n"
    return frozenset(
        {
            Insert(spot_of(scope.tree, first), Where.BEFORE, own, -1),
            Insert(spot_of(scope.tree, scope.function), Where.AFTER, "\n".join(lines) + "\n"),
        }
    )


def count_of(scope: Scope, terms: Sequence[Leaf]) -> PerBatch:
    """What the terms of a loss divide by.

    Raises:
        DeclinedError: that is not in sight, or differs from term to term.
    """
    counts = {_of_term(scope, leaf) for leaf in terms}
    if len(counts) != 1:
        raise DeclinedError("its terms have denominators of their own")
    return counts.pop()


def _of_term(scope: Scope, leaf: Leaf) -> PerBatch:
    match leaf.made, leaf.node:
        case Made.CRITERION, _:
            return _scored(scope, criterion(scope, leaf.call))
        case Made.QUOTIENT, ast.BinOp(right=right):
            return PerBatch(_summed(_in_batch(scope, divisor_count(right))))
        case Made.MEAN, node if (mask := kept(node)) is not None:
            return PerBatch(f"{atomic(_in_batch(scope, stripped(mask)))}.sum()")
        case _:
            raise DeclinedError("it is not in sight over which items the loss is averaged")


def _summed(count: ast.expr) -> str:
    """A count that is a tensor, whatever made it."""
    match count:
        case ast.Call(func=ast.Attribute(attr="sum")):
            return unparsed(count)
        case _:
            raise DeclinedError("it is not in sight over which items the loss is averaged")


def _in_batch(scope: Scope, node: ast.expr) -> ast.expr:
    """An expression of the override in words of a batch of the window, with nothing of what the model computes.

    Raises:
        DeclinedError: it depends on more than the batch.
    """
    arguments = [a.arg for a in (*scope.function.args.posonlyargs, *scope.function.args.args)]
    if len(arguments) < 3:
        raise DeclinedError("the override takes no batch")
    call = ast.parse(f"{arguments[0]}.{scope.function.name}({arguments[1]}, {_BATCH})", mode="eval").body
    assert isinstance(call, ast.Call)
    made = bring(scope.tree, node, [Step(scope.function, call, whole=True)])
    names = {n.id for n in ast.walk(made) if isinstance(n, ast.Name)}
    if arguments[1] in names or not is_pure(made):
        raise DeclinedError("what the loss divides by is not in sight of the batch")
    return made


def _scored(scope: Scope, made: Criterion) -> PerBatch:
    """What a loss of PyTorch averages over."""
    if made.target is None:
        raise DeclinedError("the targets of the loss are not in sight")
    target = atomic(selected(stripped(_in_batch(scope, stripped(made.target)))))
    if made.name in POINTWISE:
        if not scope.tree.is_global("torch"):
            raise DeclinedError("torch is not imported by that name")
        return PerBatch(f"torch.tensor({target}.numel())")
    if made.name not in CLASSES:
        raise DeclinedError(f"how {made.name} averages is not known to the codemod")
    ignored = _ignored(scope, made)
    weight = made.weight
    if weight is None:
        return PerBatch(f"{target}.ne({ignored}).sum()")
    return PerBatch(f"{_weights(scope, made, weight)}[targets[targets.ne({ignored})]].sum()", "targets", target)


def _ignored(scope: Scope, made: Criterion) -> str:
    given = made.words.get("ignore_index")
    if given is None or isinstance(given, ast.Constant | ast.UnaryOp):
        return "-100" if given is None else unparsed(given)
    return _setting(scope, made, given, "ignore_index")


def _weights(scope: Scope, made: Criterion, weight: ast.expr) -> str:
    """The class weights, where the targets are if the loss places them."""
    if scope.tree.function_of(made.settings) is not scope.function:
        return _setting(scope, made, weight, "weight")
    match weight:
        case ast.Name(id=name):
            match bound(scope.tree, scope.function, name, weight.lineno):
                case [ast.Assign(targets=[ast.Name()], value=value)]:
                    return _weights(scope, made, value)
                case _:
                    return _setting(scope, made, weight, "weight")
        case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in _PLACED:
            weights = _weights(scope, made, inner).removesuffix(_THERE)
            return weights if weights.endswith("device=targets.device)") else f"{weights}{_THERE}"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="tensor")) if _is_list(weight):
            return f"torch.tensor({unparsed(weight.args[0])}, device=targets.device)"
        case _:
            return _setting(scope, made, weight, "weight")


def _is_list(node: ast.Call) -> bool:
    """Whether a tensor is made of numbers that are written out."""
    return len(node.args) == 1 and all(
        isinstance(part, ast.List | ast.Tuple | ast.Constant | ast.BinOp | ast.operator | ast.Load)
        for part in ast.walk(node.args[0])
    )


def _setting(scope: Scope, made: Criterion, given: ast.expr, name: str) -> str:
    """A setting of a loss: as it is given, or as the criterion of the object holds it."""
    if scope.tree.function_of(made.settings) is scope.function:
        return atomic(_in_batch(scope, given))
    key = spelled(made.call.func)
    if key is None:
        raise DeclinedError("the settings of the criterion are not in sight of the batch")
    return f"{key}.{name}"
