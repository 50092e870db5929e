"""What the user said about the loss, and what kind of loss a Trainer has. Read from the objects, nothing is changed."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from gafixer.patch import messages

__all__ = [
    "averages_over_ranks",
    "bare_model",
    "keeps_its_scale",
    "parameters",
    "shape_of",
    "takes_count",
    "user_says_scaled",
]


def user_says_scaled(trainer: Any, count: Any) -> bool | None:
    """Whether the user declared the loss scaled for accumulation (True) or a mean (False); None for no word on it.

    `loss_is_scaled_for_ga` is the official switch; before it, setting `model_accepts_loss_kwargs` to other than what
    the Trainer would have found was the way to say so.
    """
    switch = getattr(trainer, "loss_is_scaled_for_ga", None)
    if switch is not None:
        messages.once(trainer, f"loss_is_scaled_for_ga = {switch} is obeyed", logging.INFO)
        return bool(switch)
    accepts = getattr(trainer, "model_accepts_loss_kwargs", None)
    if accepts is None or accepts == _found_by_trainer(trainer):
        return None
    messages.once(trainer, f"model_accepts_loss_kwargs = {accepts} is obeyed", logging.INFO)
    return (bool(accepts) and count is not None) or getattr(trainer, "compute_loss_func", None) is not None


def averages_over_ranks(args: Any) -> bool:
    """Whether the count goes over all ranks. It does unless the user turned off what is on by default."""
    fields = getattr(type(args), "__dataclass_fields__", {})
    name = "average_tokens_across_devices"
    return name not in fields or not fields[name].default or bool(getattr(args, name))


def takes_count(compute_loss: Callable[..., Any]) -> bool:
    """Whether a `compute_loss` can be called with `num_items_in_batch`."""
    function = getattr(compute_loss, "__func__", compute_loss)
    return "num_items_in_batch" in parameters(function) or _any_keyword(function)


def keeps_its_scale(compute_loss: Callable[..., Any]) -> bool:
    """Whether a `compute_loss` is from a library whose losses compare a microbatch's rows: pairs, groups, negatives.

    Such a loss has no reference to meet: another split of the window is another loss.
    """
    function = inspect.unwrap(getattr(compute_loss, "__func__", compute_loss))
    return getattr(function, "__module__", "").partition(".")[0] in _COMPARING


_COMPARING = frozenset(("sentence_transformers", "trl"))


def bare_model(model: Any) -> Any:
    """The head inside compiled, parallel and PEFT wrappers."""
    while True:
        kind = type(model)
        if (inner := _WRAPPERS.get(kind.__name__)) is not None:
            model = getattr(model, inner)
        elif hasattr(kind, "get_base_model") and hasattr(model, "peft_config"):
            return model.get_base_model()
        else:
            return model


_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": "module",
    "DeepSpeedEngine": "module",
    "XlaFullyShardedDataParallel": "module",
}


def _found_by_trainer(trainer: Any) -> bool:
    """What `Trainer.__init__` found for `model_accepts_loss_kwargs`, over the releases that have it."""
    head = bare_model(trainer.model)
    if _goes_by_name():
        named = parameters(type(head).forward).get("loss_kwargs")
        return named is not None and named.kind is inspect.Parameter.VAR_KEYWORD
    if hasattr(head, "accepts_loss_kwargs"):
        return bool(head.accepts_loss_kwargs)
    return _any_keyword(type(head).forward)


@functools.cache
def _goes_by_name() -> bool:
    """4.46 accepted a parameter of one name only."""
    base = sys.modules["transformers.trainer"].Trainer
    return "loss_kwargs" in inspect.unwrap(base.__init__).__code__.co_consts


def shape_of(inputs: Any) -> object:
    """What two batches share that a head treats alike: keys, dtypes and dimensions."""
    if not isinstance(inputs, Mapping):
        return type(inputs)
    return frozenset((k, v.dtype, v.dim()) if isinstance(v, Tensor) else (k, None, 0) for k, v in inputs.items())


@functools.lru_cache(maxsize=256)
def _any_keyword(function: Callable[..., Any]) -> bool:
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters(function).values())


@functools.lru_cache(maxsize=256)
def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """What a function takes, by name."""
    return dict(inspect.signature(function).parameters)
