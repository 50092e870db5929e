"""Counts and figures on a wrong scale: labels that are shifted away, items of one rank, reports divided twice."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gafixer.analysis.events import EventKind
from gafixer.analysis.site import Divisor, Scale
from gafixer.analysis.values import Atom, Author
from gafixer.codemod.count import unparsed
from gafixer.codemod.division import dropped
from gafixer.codemod.helper import NAME, PER_RANK, present, text_of
from gafixer.codemod.loss import spot_of
from gafixer.codemod.plan import DeclinedError, Helper, Plan, Replace, Rewrite
from gafixer.codemod.reports import divisor
from gafixer.codemod.tree import Tree, spelled
from gafixer.findings import Applicability

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Site
    from gafixer.codemod.plan import Part

__all__ = ["everywhere", "reported_once", "shifted"]


# -- labels that are shifted away ------------------------------------------------------------------------------------


def shifted(tree: Tree, site: Site) -> Plan:
    """Count the labels that are scored: with the slice that the loss takes of them."""
    for term in site.terms:
        call = tree.expression(term.atom.spot)
        found = _slice(tree, call) if isinstance(call, ast.Call) else None
        if found is None or term.scale is not Scale.SUM:
            continue
        base, key = found
        for division in term.divided_by(Divisor.WINDOW_ITEMS):
            count = tree.expression(division.value.spot) if isinstance(division.value, Atom) else None
            counted = list(_whole(tree, count, base)) if count is not None else []
            if len(counted) == 1:
                code = f"{tree.text(counted[0])}[{key}]"
                return Plan(
                    frozenset({Replace(spot_of(tree, counted[0]), code)}), Applicability.SAFE, "Count what is scored"
                )
    raise DeclinedError("the count of the labels is not in sight")


def _slice(tree: Tree, call: ast.Call) -> tuple[ast.expr, str] | None:
    """The labels that a loss compares with, and the slice that it takes of them."""
    for argument in (*call.args[1:], *(k.value for k in call.keywords if k.arg == "target")):
        for node in _through_names(tree, argument):
            match node:
                case ast.Subscript(value=base, slice=ast.Tuple() as key) if "1:" in ast.unparse(key):
                    return base, ast.unparse(key).strip("()")
                case _:
                    pass
    return None


def _through_names(tree: Tree, node: ast.expr) -> Iterator[ast.AST]:
    """The parts of an expression, and of what its names were made of."""
    for part in ast.walk(node):
        yield part
        if isinstance(part, ast.Name):
            made = tree.assignments(tree.function_of(part), part.id)
            if len(made) == 1 and isinstance(made[0], ast.Assign):
                yield from ast.walk(made[0].value)


def _whole(tree: Tree, count: ast.expr, base: ast.expr) -> Iterator[ast.expr]:
    """The labels in a count, where no slice is taken of them."""
    wanted = _last(unparsed(base))
    for node in ast.walk(count):
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and _last(unparsed(node)) == wanted:
            parent = tree.parent(node)
            if not (isinstance(parent, ast.Subscript) and parent.value is node):
                yield node


def _last(code: str) -> str:
    """``b["labels"]`` and ``batch["labels"]`` are the same labels."""
    return code[code.index("[") :] if "[" in code else code


# -- items of one rank -----------------------------------------------------------------------------------------------

_TEXT = f'''\
def {PER_RANK}(num_items):
    """Divide the items of all ranks by the number of ranks, over which gradients are averaged."""
    total = torch.as_tensor(num_items).clone()
    ranks = 1
    if dist.is_initialized():
        dist.all_reduce(total)
        ranks = dist.get_world_size()
    return float(total) / ranks or 1.0
'''


def everywhere(tree: Tree, site: Site) -> Plan:
    """Sum the count over all ranks."""
    if present(tree) is Helper.ALONE:
        node = next(n for n in tree.root.body if isinstance(n, ast.FunctionDef) and n.name == NAME)
        code, imports = text_of(Helper.RANKS, tree)
        part: Part = Rewrite(spot_of(tree, node), code)
        return Plan(frozenset({part}), Applicability.SAFE, "Count the items of all ranks", imports=imports)
    _unconditional(tree, site)
    for term in site.terms:
        kinds = (Divisor.WINDOW_ITEMS,) if site.accumulates else (Divisor.WINDOW_ITEMS, Divisor.LOCAL_ITEMS)
        own = [d for kind in kinds for d in term.divided_by(kind) if d.author is Author.CODE and d.spot is not None]
        for division in own:
            assert division.spot is not None
            match tree.expression(division.spot):
                case ast.BinOp(op=ast.Div(), right=count) if spelled(count) is not None or isinstance(count, ast.Call):
                    if any(isinstance(n, ast.If) for n in tree.around(count)):
                        raise DeclinedError("a count over all ranks would stand under a condition")
                    code = f"{PER_RANK}({tree.text(count)})"
                    text, imports = text_of(_TEXT, tree)
                    parts: frozenset[Part] = frozenset({Replace(spot_of(tree, count), code)})
                    return Plan(
                        parts, Applicability.SAFE, "Count the items of all ranks", functions=(text,), imports=imports
                    )
                case _:
                    pass
    raise DeclinedError("the division by the count is not in sight")


def _unconditional(tree: Tree, site: Site) -> None:
    """Ranks that only a flag brings are the author's own business.

    Raises:
        DeclinedError: the model is wrapped under a condition, or in another file.
    """
    wraps = [n for n in tree.walk(tree.root) if isinstance(n, ast.Call) and _WRAPS.search(spelled(n.func) or "")]
    wraps = [n for n in wraps if not any(isinstance(p, ast.If) for p in tree.around(n))]
    if not wraps:
        raise DeclinedError("ranks are in sight under a condition only, or in another file")


_WRAPS = re.compile(
    r"DistributedDataParallel$|\bDDP$|FullyShardedDataParallel$|\bFSDP$|fully_shard$|Accelerator$|fabric\.setup"
)


# -- reports ---------------------------------------------------------------------------------------------------------


def reported_once(tree: Tree, site: Site) -> Plan:
    """Drop the division that only the report has, of a loss that was divided already."""
    own = {d.spot for term in site.terms for d in term.divisions}
    steps = {tree.text(by) for term in site.terms for d in term.divided_by(Divisor.STEPS) if (by := divisor(tree, d))}
    for event in site.happening(EventKind.LOG):
        for term in site.reported(event):
            extra = [d for d in term.divided_by(Divisor.STEPS) if d.spot not in own]
            again = {tree.text(by) for d in extra if (by := divisor(tree, d))}
            if len(extra) == 1 and again <= steps and term.atom.accumulated is not None:
                return Plan(dropped(tree, extra[0]), Applicability.SAFE, "Report the loss on the scale that it has")
    raise DeclinedError("the report is of a loss that was divided before: report it before, or times the steps")
