"""Tiny configurations of any configuration class, old `__init__` style and dataclass style alike.

Nothing here knows a model by name: sizes follow attribute names (`sizes`), and what ties several attributes together
is a relation over the attributes that take part (`relations`).
"""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import inspect
import re
from typing import TYPE_CHECKING, Any

from gafixer.parity.relations import read, settle
from gafixer.parity.sizes import VOCABULARY, small

if TYPE_CHECKING:
    from gafixer.parity.sizes import Plan

__all__ = ["is_config", "shrink", "sub_configs"]

_TOKEN = re.compile(r".*_token_(ids?|index|idx)|(.*_)?(image|video|audio)_token|bo[a-z]_token_id|eo[a-z]_token_id")
_FIRST_TEXT_TOKEN = 10  # below: pad, begin, end; ids from here up to 80 are drawn as text, the rest are markers
_MAX_NESTING = 4
_ALWAYS = frozenset({"pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"})


def is_config(value: object) -> bool:
    """Whether this is a configuration of a model or of a part of one."""
    return hasattr(value, "to_dict") and hasattr(value, "model_type")


def sub_configs(config: Any) -> dict[str, Any]:
    """The configurations held by this one, by attribute."""
    return {name: value for name, value in vars(config).items() if is_config(value)}


def _accepted(config_class: type) -> set[str]:
    """The names that the constructor takes, those of base classes included where it hands them on."""
    if dataclasses.is_dataclass(config_class):
        return {field.name for field in dataclasses.fields(config_class) if field.init}
    names: set[str] = set()
    for base in config_class.__mro__:
        if "__init__" in vars(base):
            parameters = inspect.signature(base.__init__).parameters.values()  # type: ignore[misc]  # of a class, not an instance
            names |= {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
            if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                break
    return names - {"self"}


class _Tokens:
    """Hands out marker ids at the vocabulary's upper end; one name keeps its id through nested configurations."""

    def __init__(self) -> None:
        self._given: dict[Any, int] = {}

    def place(self, name: str, value: Any) -> Any:
        if name == "pad_token_id":
            return value if isinstance(value, int) and 0 <= value < _FIRST_TEXT_TOKEN else 0
        if isinstance(value, bool) or not isinstance(value, int) or value < _FIRST_TEXT_TOKEN:
            return value
        return self._given.setdefault(value, VOCABULARY - 1 - len(self._given) % 18)


def _default(config_class: type) -> Any:
    try:
        return config_class()
    except Exception:  # a configuration that can't be made without its parts is read from its signature instead
        return None


def _values(config_class: type, plan: Plan, tokens: _Tokens, nesting: int, backbone: Any = None) -> dict[str, Any]:
    default = _default(config_class)
    values: dict[str, Any] = {}
    if backbone is not None:  # the model around it says which of its layers are given out
        values["out_indices"] = list(backbone.out_indices)
    parts = dict(getattr(config_class, "sub_configs", None) or {})
    if default is not None:
        parts |= {name: type(part) for name, part in sub_configs(default).items()}
    for name in sorted(_accepted(config_class) - parts.keys() - {"_out_indices", "_out_features", *values}):
        given = read(default, name)
        value = tokens.place(name, given) if _TOKEN.fullmatch(name) else small(name, given, plan)
        if value is not None and not _same(value, given):
            values[name] = value
    if nesting < _MAX_NESTING:
        for name, part in parts.items():
            if isinstance(part, type) and not part.__name__.startswith(("Auto", "PreTrained", "Pretrained")):
                given = read(default, name)
                values[name] = _make(part, plan, tokens, nesting + 1, given if _is_backbone(given) else None)
    return settle(values, default, plan)


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


def _is_backbone(config: Any) -> bool:
    return is_config(config) and isinstance(read(config, "out_indices"), (list, tuple))


def _stand_in(stages: int) -> Any:
    """A convolutional backbone for models that take theirs from timm by default, where that is not installed."""
    from transformers import ResNetConfig

    return ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1] * 4, out_indices=list(range(5 - stages, 5))
    )


def _make(config_class: type, plan: Plan, tokens: _Tokens, nesting: int, backbone: Any = None) -> Any:
    if config_class.__name__ == "TimmBackboneConfig" and importlib.util.find_spec("timm") is None:
        return _stand_in(len(backbone.out_indices) if backbone is not None else 4)
    values = _values(config_class, plan, tokens, nesting, backbone)
    try:
        config = config_class(**values)
    except (AttributeError, TypeError, ValueError):
        # Some composite configurations want their parts as plain dicts.
        plain = {name: _as_dict(value) if is_config(value) else value for name, value in values.items()}
        config = config_class(**plain)
    return config


def _as_dict(config: Any) -> dict[str, Any]:
    return {**config.to_dict(), "model_type": config.model_type}


def shrink(config_class: type, plan: Plan, **fixed: Any) -> Any:
    """A tiny configuration of the class; `fixed` attributes are set on it afterwards.

    Raises:
        Exception: whatever the class raises where the sizes do not go together under this plan.
    """
    config = copy.deepcopy(_make(config_class, plan, _Tokens(), 0))
    for part in (config, *sub_configs(config).values()):
        for name, value in (
            ("pad_token_id", 0),
            ("bos_token_id", 1),
            ("eos_token_id", 2),
            ("decoder_start_token_id", 2),
            ("image_token_id", VOCABULARY - 1),
            ("image_token_index", VOCABULARY - 1),
        ):
            if getattr(part, name, value) is None or (name in _ALWAYS and not hasattr(part, name)):
                setattr(part, name, value)
    for name, value in fixed.items():
        setattr(config, name, value)
    return config
