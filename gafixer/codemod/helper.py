"""The private function that rewritten files get, and what it needs to be imported."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gafixer.codemod.plan import Helper, Insert, Replace
from gafixer.codemod.text import LONG

if TYPE_CHECKING:
    from gafixer.codemod.plan import Part, Plan
    from gafixer.codemod.tree import Tree

__all__ = ["NAME", "PER_RANK", "Added", "added", "imported", "present", "text_of"]

NAME = "_divide_gradients"
PER_RANK = "_items_per_rank"

_GATHERED = """\
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        raise RuntimeError("no gradients to divide: they were stepped or cleared before")
"""
_DIVIDED = """\
    for gradient in gradients:
        gradient.div_(divisor)
"""
_ALONE = f'''\
def {NAME}(parameters, num_items):
    """Divide the gradients of a window by its number of items."""
{_GATHERED}    divisor = float(num_items) or 1.0
{_DIVIDED}'''
_RANKS = f'''\
def {NAME}(parameters, num_items):
    """Divide the gradients of a window, which are averaged over the ranks, by its items."""
{_GATHERED}    total = torch.as_tensor(num_items, device=gradients[0].device).clone()
    ranks = 1
    if dist.is_initialized():
        dist.all_reduce(total)
        ranks = dist.get_world_size()
    divisor = float(total) / ranks or 1.0
{_DIVIDED}'''
_ACCELERATE = f'''\
def {NAME}(accelerator, parameters, num_items):
    """Divide the gradients of a window by its items on all processes; undo Accelerate's own division by the steps."""
    if accelerator.distributed_type in ("DEEPSPEED", "MEGATRON_LM"):
        raise RuntimeError(f"{{accelerator.distributed_type}} keeps its gradients to itself: divide the loss instead")
{_GATHERED}    total = accelerator.reduce(torch.as_tensor(num_items, device=gradients[0].device).clone(), "sum")
    divisor = float(total) / (accelerator.num_processes * accelerator.gradient_accumulation_steps) or 1.0
{_DIVIDED}'''
_TEXT = {Helper.ALONE: _ALONE, Helper.RANKS: _RANKS, Helper.ACCELERATE: _ACCELERATE}


@dataclass(frozen=True, slots=True)
class Added:
    """What goes to the top level of a file: functions, and imports that it lacks."""

    functions: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()


def present(tree: Tree) -> Helper | None:
    """The form of the helper that a file has already."""
    for node in tree.root.body:
        if isinstance(node, ast.FunctionDef) and node.name == NAME:
            have = ast.dump(ast.Module([node], []))
            return next((h for h, text in _TEXT.items() if ast.dump(ast.parse(_fitted(text, tree)[0])) == have), None)
    return None


def added(helper: Helper, tree: Tree) -> Added:
    """What a file needs for a form of the helper."""
    if present(tree) is helper:
        return Added()
    text, imports = _fitted(_TEXT[helper], tree)
    return Added((text,), imports)


def imported(plan: Plan) -> tuple[frozenset[Part], str]:
    """The parts of a plan with the public functions in the place of private ones, and the import of these."""
    names = {PER_RANK: "items_per_rank", "_WithNumItems": "WithNumItems", "_CountedWindows": "CountedWindows"}
    if plan.helper is not None:
        names[NAME] = _PUBLIC[plan.helper]
    used: set[str] = set()
    parts: set[Part] = set()
    for part in plan.parts:
        if isinstance(part, Insert | Replace):
            for private, public in names.items():
                if private in part.code:
                    used.add(public)
                    part = replace(part, code=part.code.replace(private, public))
        parts.add(part)
    return frozenset(parts), f"from gafixer.accumulate import {', '.join(sorted(used))}" if used else ""


_PUBLIC = {
    Helper.ALONE: "divide_gradients",
    Helper.RANKS: "divide_gradients_over_ranks",
    Helper.ACCELERATE: "divide_gradients_accelerated",
}


def text_of(helper: Helper | str, tree: Tree) -> tuple[str, tuple[str, ...]]:
    """A helper (or a function of the same style) in the file's own names, and the imports that it lacks."""
    return _fitted(helper if isinstance(helper, str) else _TEXT[helper], tree)


def _fitted(text: str, tree: Tree) -> tuple[str, tuple[str, ...]]:
    """The helper with the file's own names for what it imports, and the imports that are missing."""
    text, missing = _typed(text, tree) if _has_types(tree) else (text, [])
    if "torch." in text and not _imported(tree, "torch"):
        missing.append("import torch")
    if "dist." in text:
        alias = _imported(tree, "torch.distributed")
        if alias is None:
            missing.append("import torch.distributed as dist")
        elif alias != "dist":
            text = text.replace("dist.", f"{alias}.")
    return text, tuple(missing)


def _has_types(tree: Tree) -> bool:
    """Whether most functions of a file have types, those that are added left out."""
    functions = [
        n
        for n in tree.walk(tree.root)
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name not in {NAME, PER_RANK}
    ]
    typed = [f for f in functions if f.returns is not None or any(a.annotation for a in f.args.args)]
    return len(typed) * 2 > len(functions)


def _typed(text: str, tree: Tree) -> tuple[str, list[str]]:
    """The helper with types, and the import that they need."""
    module = "accelerator" in text.partition(")")[0] and not tree.is_global("Accelerator")
    if module:
        return text, []
    union = "torch.Tensor | float"
    if not _writes_unions(tree):
        union = f'"{union}"'
    head, rest = text.split("\n", 1)
    head = head.replace("accelerator,", "accelerator: Accelerator,")
    head = head.replace("parameters,", "parameters: Iterable[torch.nn.Parameter],")
    head = head.replace("num_items):", f"num_items: {union}) -> {'float' if PER_RANK in head else 'None'}:")
    if len(head) > LONG:
        name, _, rest_of_it = head.partition("(")
        given, _, returned = rest_of_it.rpartition(")")
        head = f"{name}(\n    {given}\n){returned}"
    needs = "Iterable" in head and not tree.is_global("Iterable")
    return f"{head}\n{rest}", ["from collections.abc import Iterable"] if needs else []


def _writes_unions(tree: Tree) -> bool:
    """Whether a file writes ``int | str``, or may since annotations are not evaluated."""
    for node in tree.walk(tree.root):
        match node:
            case ast.ImportFrom(module="__future__", names=names) if any(n.name == "annotations" for n in names):
                return True
            case ast.arg(annotation=ast.BinOp(op=ast.BitOr())):
                return True
            case _:
                pass
    return False


def _imported(tree: Tree, module: str) -> str | None:
    """The name under which the top level of a file has a module."""
    parent, _, last = module.rpartition(".")
    for node in tree.root.body:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if alias.name == module:
                        return alias.asname or module
                    if alias.asname is None and alias.name.startswith(f"{module}."):
                        return module
            case ast.ImportFrom(module=source, names=names) if source == parent and parent:
                for alias in names:
                    if alias.name == last:
                        return alias.asname or last
            case _:
                pass
    return None
