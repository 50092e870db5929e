"""Plain loops: a head called with `num_items_in_batch` returns sum / count, whatever its forward makes of the count.

One count serves the whole loss: the term on `labels` becomes its sum over the count, and every other term weighs as
much as the microbatch's share of the count. So a head that is made to return local means is multiplied by local items
/ count.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from gafixer.patch import flags, messages
from gafixer.patch.items import Batch, ItemRule, View, count
from gafixer.patch.observe import Kind, LossContract, Observation, observe
from gafixer.patch.record import recording

__all__ = ["bypassed", "call"]

COUNT = "num_items_in_batch"

_bypassed: ContextVar[bool] = ContextVar("gafixer_bypassed", default=False)
_bypasses = 0
"""The same for compiled forwards, which can be traced through a number but not through a context variable."""

_by_model: WeakKeyDictionary[Any, dict[object, LossContract]] = WeakKeyDictionary()
_by_class: dict[object, LossContract] = {}
"""For compiled forwards, which can't be traced through weak references."""


@contextlib.contextmanager
def bypassed() -> Iterator[None]:
    """Call heads as they are, inside."""
    global _bypasses
    token = _bypassed.set(True)
    _bypasses += 1
    try:
        yield
    finally:
        _bypasses -= 1
        _bypassed.reset(token)


def call(original: Callable[..., Any]) -> Callable[..., Any]:
    """Weigh the loss of a head that is handed a count."""

    @functools.wraps(original)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get(COUNT) is None:
            return original(self, *args, **kwargs)
        if torch.compiler.is_compiling():
            return original(self, *args, **kwargs) if _bypasses else _traced(original, self, args, kwargs)
        if _bypassed.get() or torch.is_inference_mode_enabled() or _foreign(self):
            return original(self, *args, **kwargs)
        with bypassed():
            return _weighed(original, self, args, kwargs)

    return wrapper


def _weighed(original: Callable[..., Any], model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = kwargs.pop(COUNT)
    batch = _named(model, args, kwargs)
    key = _key(model, batch)
    contract = _by_model.setdefault(model, {}).get(key)
    if contract is None or not _one_share(contract, batch):
        return _observed(original, model, args, kwargs, given, batch, key)
    if contract.counted and contract.rest is None and len({term.kind for term in contract.terms}) == 1:
        return original(model, *args, **kwargs, num_items_in_batch=given)
    items = _items(contract, batch)
    if contract.counted:
        kwargs[COUNT] = torch.as_tensor(items).clamp(min=1)
    return _with_loss(original(model, *args, **kwargs), lambda loss: _times(loss, items, given))


def _traced(original: Callable[..., Any], model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same inside a compiled region, for a contract that is known; else observed eagerly, outside of it."""
    batch = _named(model, args, kwargs)
    batch.pop(COUNT)
    contract = _by_class.get((type(model), tuple(sorted(batch))))
    if contract is None or contract.counted:
        return (original if contract is not None else _eagerly(original))(model, *args, **kwargs)
    given = kwargs.pop(COUNT)
    items = _items(contract, batch)
    return _with_loss(original(model, *args, **kwargs), lambda loss: loss * (items / given))


def _eagerly(original: Callable[..., Any]) -> Callable[..., Any]:
    def observe_first(model: Any, *args: Any, **kwargs: Any) -> Any:
        with bypassed():
            return _weighed(original, model, args, kwargs)

    disabled: Callable[..., Any] = torch.compiler.disable(observe_first)  # type: ignore[no-untyped-call]  # torch has no types for it
    return disabled


def _observed(
    original: Callable[..., Any],
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    given: Any,
    batch: Batch,
    key: object,
) -> Any:
    """Run under the recorder, with the count; keep the contract once it is settled."""
    handed = torch.as_tensor(given).detach().to(_device(batch)).float().requires_grad_()
    with_grad = torch.is_grad_enabled()
    outputs, calls = _recorded(original, model, args, kwargs, handed)
    loss = _loss(outputs)
    if loss is None or not loss.requires_grad:
        return outputs
    seen = observe(loss, calls, handed, batch)
    if seen.contract.settled:
        _by_model[model][key] = seen.contract
        _by_class[type(model), tuple(sorted(batch))] = seen.contract
    outputs = _with_loss(outputs, lambda _: _total(seen, batch, handed.detach()))
    return outputs if with_grad else tree_map_only(Tensor, Tensor.detach, outputs)


def _recorded(
    original: Callable[..., Any], model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], handed: Tensor
) -> tuple[Any, list[Any]]:
    try:
        with torch.enable_grad(), recording(handed) as recorder:
            return original(model, *args, **kwargs, num_items_in_batch=recorder.count), recorder.calls
    except (TypeError, ValueError) as error:
        if COUNT not in str(error):
            raise
    with torch.enable_grad(), recording() as recorder:
        return original(model, *args, **kwargs), recorder.calls


def _total(seen: Observation, batch: Batch, given: Tensor) -> Tensor:
    """Each term on the labels by its own items, all else by those of the first."""
    main = _items(seen.contract, batch)
    parts = []
    for term, share in zip(seen.contract.terms, seen.shares, strict=True):
        match term.kind:
            case Kind.COUNTED:
                parts.append(share)
            case Kind.SUM:
                parts.append(share / given)
            case Kind.MEAN:
                own = term.rule is not None and term in _mains(seen.contract)
                parts.append(_times(share, count(term.rule, batch) if own and term.rule else main, given))
    if seen.rest is not None:
        parts.append(_times(seen.rest, main, given))
    return torch.stack([part.to(seen.loss.device) for part in parts]).sum()


def _mains(contract: LossContract) -> list[Any]:
    """The terms that the count is about: those on `labels`, or all where none is.

    None of them where objects are counted: what their queries are to predict has weights of its own.
    """
    if contract.rest is not None and contract.rest.view is View.OBJECTS:
        return []
    placed = [term for term in contract.terms if term.rule is not None]
    return [term for term in placed if term.rule is not None and term.rule.source == "labels"] or placed


def _main_rule(contract: LossContract) -> ItemRule:
    if contract.rest is not None and contract.rest.view is View.OBJECTS:
        return contract.rest
    mains = _mains(contract)
    return mains[0].rule if mains else ItemRule("labels", View.WHOLE, -100)


def _items(contract: LossContract, batch: Batch) -> Tensor | float:
    """What the microbatch counts for. Without any object, a loss that divides by their number divides by 1."""
    rule = _main_rule(contract)
    items = count(rule, batch)
    return max(float(items), 1.0) if rule.view is View.OBJECTS else items


def _one_share(contract: LossContract, batch: Batch) -> bool:
    """Whether one factor serves: always but where the main terms differ in their items, or add up undivided."""
    if any(term.kind is Kind.SUM for term in contract.terms):
        return False
    counts = {rule: float(count(rule, batch)) for term in _mains(contract) if (rule := term.rule)}
    return len(counts) <= 1 or len(set(counts.values())) == 1


def _times(loss: Tensor, items: Tensor | float, given: Any) -> Tensor:
    """`loss * items / given`; 0 over no items, whatever the mean was."""
    if not items:
        return loss.nan_to_num(0.0, 0.0, 0.0) * 0.0
    factor = items / (given.to(loss.device) if isinstance(given, Tensor) else given)
    return loss * (factor.to(loss.device) if isinstance(factor, Tensor) else factor)


def _named(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names that the head's forward gives them."""
    if not args:
        return dict(kwargs)
    names = list(flags.parameters(type(flags.bare_model(model)).forward))[1:]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _key(model: Any, batch: Batch) -> object:
    config = getattr(flags.bare_model(model), "config", None)
    return getattr(config, "problem_type", None), flags.shape_of(batch), model.training


def _loss(outputs: Any) -> Tensor | None:
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs[0] if isinstance(outputs, tuple) else None
    return loss if isinstance(loss, Tensor) and loss.dim() == 0 and loss.is_floating_point() else None


def _with_loss(outputs: Any, change: Callable[[Tensor], Tensor]) -> Any:
    loss = _loss(outputs)
    if loss is None:
        return outputs
    if isinstance(outputs, tuple):
        return (change(loss), *outputs[1:])
    outputs["loss"] = change(loss)
    return outputs


def _device(batch: Batch) -> torch.device:
    return next((v.device for v in batch.values() if isinstance(v, Tensor)), torch.device("cpu"))


def _foreign(model: Any) -> bool:
    """Whether Liger or Unsloth put their own forward on this head: theirs stays."""
    module = getattr(getattr(flags.bare_model(model), "forward", None), "__module__", "") or ""
    if not module.startswith(("liger_kernel", "unsloth")):
        return False
    messages.once(model, f"its forward is from {module.partition('.')[0]} and stays as it is")
    return True
