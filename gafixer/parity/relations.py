"""What ties the attributes of a configuration together.

Each relation names the attributes that take part and is skipped where one is missing. `seen` reads a value as the
configuration will have it: shrunk, or else the default.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from gafixer.parity.sizes import Role, role_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gafixer.parity.sizes import Plan

__all__ = ["settle"]

_MISSING = object()
_DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth")


class _Sheet:
    """The values chosen so far over the defaults."""

    def __init__(self, values: dict[str, Any], default: Any) -> None:
        self.values = values
        self.default = default

    def __contains__(self, name: str) -> bool:
        return name in self.values or hasattr(self.default, name)

    def __getitem__(self, name: str) -> Any:
        return self.values.get(name, getattr(self.default, name, None))

    def __setitem__(self, name: str, value: Any) -> None:
        self.values[name] = value

    def names(self) -> set[str]:
        return set(self.values) | (set(vars(self.default)) if self.default is not None else set())

    def has(self, *names: str) -> bool:
        """Whether all of these are set to something."""
        return all(name in self and self[name] is not None for name in names)


def _key_heads(sheet: _Sheet, plan: Plan) -> None:
    """As many key heads as heads, one, or a divisor: what the default has."""
    default = sheet.default
    heads = next(
        (getattr(default, n) for n in ("num_attention_heads", "n_head", "num_heads") if hasattr(default, n)), None
    )
    for name in sheet.names():
        if role_of(name) is Role.KEY_HEADS and isinstance(sheet[name], int) and not plan.keep_widths:
            given = getattr(default, name, None)
            sheet[name] = plan.heads if given == heads else 1 if given == 1 else plan.key_heads


def _listed_heads(sheet: _Sheet, plan: Plan) -> None:
    """Heads per stage mean widths per stage: they are multiples that one small width would break."""
    if any(role_of(n) is Role.HEADS and isinstance(sheet[n], (list, tuple)) for n in sheet.names()):
        for name in [n for n in sheet.values if role_of(n) is Role.WIDTH]:
            del sheet.values[name]


def _per_layer_lists(sheet: _Sheet, plan: Plan) -> None:
    """A list with an entry per layer keeps one layer of each kind, in order, up to the new depth."""
    for depth in _DEPTHS:
        old = getattr(sheet.default, depth, None)
        new = sheet[depth]
        if not isinstance(old, int) or not isinstance(new, int) or new >= old:
            continue
        for name in sheet.names():
            entries = sheet[name]
            if isinstance(entries, (list, tuple)) and len(entries) == old:
                kinds = list(dict.fromkeys(map(_hashable, entries)))
                picks = sorted({list(map(_hashable, entries)).index(kind) for kind in kinds})[:new]
                picks += [i for i in range(old) if i not in picks][: new - len(picks)]
                sheet[name] = type(entries)(entries[i] for i in sorted(picks))


def _hashable(value: Any) -> Any:
    return repr(value) if isinstance(value, (list, dict)) else value


def _stage_depths(sheet: _Sheet, plan: Plan) -> None:
    """One block per stage."""
    for name in ("depths", "layers", "num_blocks"):
        if isinstance(sheet[name], (list, tuple)):
            sheet[name] = type(sheet[name])(1 for _ in sheet[name])


def _rotary_sections(sheet: _Sheet, plan: Plan) -> None:
    """Sections of a multimodal rotary embedding add up to half a head."""
    for name in ("rope_parameters", "rope_scaling"):
        rope = sheet[name]
        if not isinstance(rope, dict):
            continue
        rope = copy.deepcopy(rope)
        for part in [rope, *(v for v in rope.values() if isinstance(v, dict))]:
            if "mrope_section" in part:
                share = float(part.get("partial_rotary_factor", 1.0))
                half = int((sheet["head_dim"] or plan.head_width) * share) // 2
                part["mrope_section"] = [half - 2 * (half // 4), half // 4, half // 4]
                sheet[name] = rope


def _state_space_heads(sheet: _Sheet, plan: Plan) -> None:
    """Heads times head width of a state-space layer are the expanded hidden size."""
    for heads, width, expand in (
        ("num_heads", "head_dim", "expand"),
        ("mamba_n_heads", "mamba_d_head", "mamba_expand"),
        ("mamba_num_heads", "mamba_head_dim", "expand"),
        ("n_mamba_heads", "mamba_headdim", "mamba_expand"),
    ):
        if sheet.has(heads, width, expand, "hidden_size"):
            sheet[width] = plan.head_width
            sheet[heads] = int(sheet[expand] * sheet["hidden_size"]) // plan.head_width
    for groups in ("n_groups", "mamba_n_groups", "mamba_ngroups"):
        if sheet.has(groups):
            sheet[groups] = 1


def _rotary_width(sheet: _Sheet, plan: Plan) -> None:
    if sheet.has("rotary_dim") and isinstance(sheet["rotary_dim"], int) and not plan.keep_widths:
        sheet["rotary_dim"] = plan.head_width // 2


_RELATIONS: tuple[Callable[[_Sheet, Plan], None], ...] = (
    _key_heads,
    _listed_heads,
    _per_layer_lists,
    _stage_depths,
    _rotary_sections,
    _state_space_heads,
    _rotary_width,
)


def settle(values: dict[str, Any], default: Any, plan: Plan) -> dict[str, Any]:
    """The values with every relation made to hold."""
    sheet = _Sheet(dict(values), default)
    for relation in _RELATIONS:
        relation(sheet, plan)
    return sheet.values
