"""Lightning's automatic optimization: gradients are rescaled in the hook that it calls before clipping and stepping."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gafixer.analysis.site import Divisor, Scale
from gafixer.analysis.values import Author
from gafixer.codemod import reports
from gafixer.codemod.division import dropped
from gafixer.codemod.loss import merged, spot_of, summed
from gafixer.codemod.plan import DeclinedError, Insert, Plan, Replace, Where
from gafixer.codemod.switches import after_init
from gafixer.codemod.text import indent
from gafixer.codemod.window import Layout
from gafixer.findings import Applicability

if TYPE_CHECKING:
    from gafixer.analysis.site import Site
    from gafixer.codemod.loss import Summed
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["in_hook"]

_HOOK = "on_before_optimizer_step"
_COUNT = "self._num_items"
_BODY = (
    f'total = self.trainer.strategy.reduce({_COUNT}, reduce_op="sum")',
    "scale = self.trainer.accumulate_grad_batches * self.trainer.world_size / total.clamp(min=1)",
    "for parameter in self.parameters():",
    "{indent}if parameter.grad is not None:",
    "{indent}{indent}parameter.grad.mul_(scale)",
    f"{_COUNT} = 0",
)


def in_hook(tree: Tree, site: Site) -> Plan:
    """The plan for a `training_step` whose loss Lightning sends backward.

    Raises:
        DeclinedError: something that it needs is not in sight.
    """
    value = tree.expression(site.backward.spot)
    if value is None:
        raise DeclinedError("the loss that Lightning gets is made in another file")
    step = tree.function_of(value)
    cls = tree.class_of(value)
    statement = tree.statement_of(value)
    if not isinstance(step, ast.FunctionDef) or cls is None or not isinstance(statement, ast.Return):
        raise DeclinedError("the loss that Lightning gets is not returned by a method")
    returns = [n for n in tree.walk(step) if isinstance(n, ast.Return) and tree.function_of(n) is step]
    if len(returns) != 1 or not tree.alone(statement):
        raise DeclinedError("the step returns its loss in several places")
    if any("deepspeed" in text.lower() for _, text in site.modules):
        raise DeclinedError("DeepSpeed keeps its gradients to itself: divide the loss instead")
    if any(t.scale is not Scale.MEAN for t in site.terms) or not site.terms:
        raise DeclinedError("a part of the loss could not be followed")
    given = _given(value)
    call = ast.copy_location(ast.Call(ast.Name("backward", ast.Load()), [given], []), given)
    loss = merged([summed(tree, site, term, step, call) for term in site.terms])
    parts = _stepped(tree, site, step, statement, given, loss)
    parts |= after_init(tree, cls, f"{_COUNT} = 0") | _hooked(tree, cls, step)
    said = "Divide the window's gradients by its number of items, before Lightning clips and steps"
    message = f"{said}, assuming {loss.assumed}" if loss.assumed else said
    return Plan(frozenset(parts), Applicability.UNSAFE, message)


def _given(value: ast.expr) -> ast.expr:
    """The loss in what the step returns."""
    match value:
        case ast.Dict(keys=keys, values=values):
            for key, part in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "loss":
                    return part
            raise DeclinedError("the loss that Lightning gets is not in sight")
        case _:
            return value


def _stepped(
    tree: Tree, site: Site, step: ast.FunctionDef, statement: ast.Return, given: ast.expr, loss: Summed
) -> set[Part]:
    """The step returns the sum, and counts its items."""
    taken = tree.taken(step)
    own = next((n for n in ("items", "num_items", "batch_items") if n not in taken), None)
    if own is None:
        raise DeclinedError("the step has an `items` of its own")
    parts: set[Part] = set(loss.parts)
    divisions = [
        d for t in site.terms for d in t.divided_by(Divisor.STEPS) if d.author is Author.CODE and d.spot is not None
    ]
    for division in {d.spot: d for d in divisions}.values():
        parts |= dropped(tree, division)
    call = ast.copy_location(ast.Call(ast.Attribute(given, "backward", ast.Load()), [], []), given)
    told = reports.reads(tree, Layout(step, statement, call, None, None, None, None), loss, divisions, own)
    returned = spot_of(tree, given)
    parts |= {p for p in told if p.spot != returned}
    made = tree.statement_of(loss.node)
    assert made is not None
    where = spot_of(tree, statement if made is statement else made)
    side = Where.BEFORE if made is statement else Where.AFTER
    count = loss.count
    if count.endswith((".numel()", ".size(0)")):
        anchor = given if isinstance(given, ast.Name) else None
        if anchor is None:
            raise DeclinedError("the step's loss has no name")
        parts.add(Insert(spot_of(tree, statement), Where.BEFORE, f"{_COUNT} += {anchor.id}.new_tensor({own})"))
    else:
        parts.add(Insert(where, side, f"{_COUNT} += {own}", 1))
    parts.add(Insert(where, side, f"{own} = {count}", 0))
    if loss.boxed:
        code = tree.text(given)
        parts.add(Replace(returned, f"{code if _is_atom(given) else f'({code})'} * {own}"))
    return parts


def _is_atom(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)


def _hooked(tree: Tree, cls: ast.ClassDef, step: ast.FunctionDef) -> set[Part]:
    """The hook, or its first statements where the class has one."""
    margin = indent(tree)
    lines = [line.replace("{indent}", margin) for line in _BODY]
    there = next((n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == _HOOK), None)
    if there is None:
        text = [f"def {_HOOK}(self, optimizer):", *(f"{margin}{line}" for line in lines)]
        return {Insert(spot_of(tree, step), Where.AFTER, "\n".join(text) + "\n")}
    first = spot_of(tree, there.body[0])
    loop = "\n".join(lines[2:5]) + "\n"
    pieces = [lines[0], lines[1], loop, lines[5]]
    return {Insert(first, Where.BEFORE, piece, rank) for rank, piece in enumerate(pieces)}
