"""What else changes where Accelerate prepares what a loop trains: devices, clips, what is asked of the model itself."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gafixer.analysis.events import EventKind
from gafixer.codemod.loss import spot_of
from gafixer.codemod.plan import DeclinedError, Replace
from gafixer.codemod.tree import spelled
from gafixer.codemod.window import event_statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Site
    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree
    from gafixer.codemod.window import Layout

__all__ = ["NAME", "adapted", "refuse"]

#: What the accelerator is called.
NAME = "accelerator"

_RANKS = re.compile(
    r"\bDistributedDataParallel\b|\bDDP\(|\bDataParallel\b|FullyShardedDataParallel|\bFSDP\(|fully_shard|"
    r"init_process_group|DistributedSampler|\bno_sync\b"
)
_PRECISION = re.compile(r"\bautocast\b|\bGradScaler\b|\bscale_loss\b")
_DEVICE = re.compile(r"device", re.IGNORECASE)
#: What a wrapped model has, too.
_SHARED = frozenset(
    {"parameters", "named_parameters", "modules", "named_modules", "children", "train", "eval", "training", "zero_grad",
     "requires_grad_", "to", "cuda", "cpu", "float", "double", "half", "bfloat16"}
)  # fmt: skip


def refuse(tree: Tree, site: Site, place: Layout) -> None:
    """What Accelerate would do a second time is left to the author.

    Raises:
        DeclinedError: the code sets up ranks or mixed precision itself.
    """
    if site.ranks is not None or _RANKS.search(tree.source):
        raise DeclinedError("the code sets up its ranks itself")
    if _PRECISION.search(tree.source):
        raise DeclinedError("the code sets up mixed precision itself, which is the Accelerator's: mixed_precision=...")
    if NAME in tree.taken(place.home):
        raise DeclinedError(f"the function has an `{NAME}` of its own")


def adapted(tree: Tree, site: Site, place: Layout, anchor: ast.stmt, model: str) -> set[Part]:
    """The parts for what comes once all is prepared."""
    parts = set(_clips(tree, site, place))
    for node in tree.walk(place.home):
        if getattr(node, "lineno", 0) < anchor.lineno or tree.function_of(node) is not place.home:
            continue
        parts |= _moved(tree, node)
        match node:
            case ast.Attribute(value=ast.Name(id=name) as base, attr=attr) if name == model and attr not in _SHARED:
                if _in_the_way(tree, place, node):
                    raise DeclinedError(f"the loss needs `{name}.{attr}`, which a model that is wrapped does not have")
                parts.add(Replace(spot_of(tree, base), f"{NAME}.unwrap_model({name})"))
            case _:
                pass
    return parts


def _in_the_way(tree: Tree, place: Layout, node: ast.AST) -> bool:
    """Whether something is computed on the way to backward."""
    loop = place.loop
    return loop is not None and tree.contains(loop, node) and getattr(node, "lineno", 0) <= place.backward.lineno


def _clips(tree: Tree, site: Site, place: Layout) -> Iterator[Part]:
    """Gradients are clipped through the accelerator, where they are whole.

    Raises:
        DeclinedError: they are clipped for every microbatch, or by another function.
    """
    steps = [s for e in site.happening(EventKind.STEP) if (s := event_statement(tree, e, place.home)) is not None]
    for event in site.happening(EventKind.CLIP):
        statement = event_statement(tree, event, place.home)
        call = next((n for n in tree.at(event.spot) if isinstance(n, ast.Call)), None)
        name = (spelled(call.func) or "").rpartition(".")[2] if call is not None else ""
        if statement is None or call is None or name.rstrip("_") not in {"clip_grad_norm", "clip_grad_value"}:
            raise DeclinedError("gradients are clipped in another function")
        if not any(tree.within(statement, tree.block(step)) is not None for step in steps):
            raise DeclinedError("gradients are clipped for every microbatch")
        yield Replace(spot_of(tree, call.func), f"{NAME}.{name.rstrip('_')}_")


def _moved(tree: Tree, node: ast.AST) -> set[Part]:
    """Tensors go to the accelerator's device."""
    device = f"{NAME}.device"
    match node:
        case ast.Call(func=ast.Attribute(value=base, attr="cuda")) if spelled(base) != "torch":
            more = [f"{k.arg}={tree.text(k.value)}" for k in node.keywords if k.arg not in {None, "device"}]
            return {Replace(spot_of(tree, node), f"{tree.text(base)}.to({', '.join([device, *more])})")}
        case ast.Call(func=ast.Attribute(attr="to"), args=[where, *_]) if _is_device(where):
            return {Replace(spot_of(tree, where), device)}
        case ast.keyword(arg="device", value=where) if _is_device(where):
            return {Replace(spot_of(tree, where), device)}
        case _:
            return set()


def _is_device(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str(name)):
            return name.partition(":")[0] in {"cuda", "cpu", "mps"}
        case _:
            last = (spelled(node) or "").rpartition(".")[2]
            return _DEVICE.search(last) is not None
