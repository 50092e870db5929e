"""What ties the attributes of a configuration together.

Each relation names the attributes that take part and is skipped where one is missing. `seen` reads a value as the
configuration will have it: shrunk, or else the default.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from gafixer.parity.sizes import DIVISOR, LENGTH, Role, role_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gafixer.parity.sizes import Plan

__all__ = ["read", "settle"]

_DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth")


def read(config: Any, name: str) -> Any:
    """An attribute of a configuration; None where it is missing or, being set per layer, has no one value."""
    try:
        return getattr(config, name, None)
    except Exception:  # heterogeneous configurations raise an error of their own
        return None


class _Sheet:
    """The values chosen so far over the defaults."""

    def __init__(self, values: dict[str, Any], default: Any) -> None:
        self.values = values
        self.default = default

    def __contains__(self, name: str) -> bool:
        return self[name] is not None

    def __getitem__(self, name: str) -> Any:
        return self.values[name] if name in self.values else read(self.default, name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.values[name] = value

    def names(self) -> set[str]:
        return set(self.values) | (set(vars(self.default)) if self.default is not None else set())

    def has(self, *names: str) -> bool:
        """Whether all of these are set to something."""
        return all(name in self for name in names)


def _key_heads(sheet: _Sheet, plan: Plan) -> None:
    """As many key heads as heads, one, or a divisor: what the default has."""
    default = sheet.default
    heads = next(
        (h for n in ("num_attention_heads", "n_head", "num_heads") if (h := read(default, n)) is not None), None
    )
    for name in sheet.names():
        if role_of(name) is Role.KEY_HEADS and not isinstance(sheet[name], (list, tuple)) and not plan.keep_widths:
            given = read(default, name)
            sheet[name] = plan.heads if given in (None, heads) else 1 if given == 1 else plan.key_heads


def _listed_heads(sheet: _Sheet, plan: Plan) -> None:
    """Heads per stage mean widths per stage: they are multiples that one small width would break."""
    if any(role_of(n) is Role.HEADS and isinstance(sheet[n], (list, tuple)) for n in sheet.names()):
        for name in [n for n in sheet.values if role_of(n) is Role.WIDTH]:
            del sheet.values[name]


def _per_layer_lists(sheet: _Sheet, plan: Plan) -> None:
    """A list with an entry per layer keeps one layer of each kind, in order, up to the new depth."""
    for depth in _DEPTHS:
        old = read(sheet.default, depth)
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
    for name in ("depths", "layers", "num_blocks", "num_block_repeats", "layer_depths"):
        if isinstance(sheet[name], (list, tuple)):
            sheet[name] = type(sheet[name])(1 for _ in sheet[name])
    if sheet.has("depth_coefficient", "width_coefficient", "hidden_dim"):
        sheet["hidden_dim"] = int(read(sheet.default, "hidden_dim") / sheet["width_coefficient"])
        sheet["depth_coefficient"] = sheet["width_coefficient"] = 1.0


def _axial_positions(sheet: _Sheet, plan: Plan) -> None:
    """A grid of positions has as many cells as a row has tokens; its widths add up to the hidden size."""
    if sheet.has("axial_pos_shape", "axial_pos_embds_dim"):
        sheet["axial_pos_shape"] = [LENGTH // 4, 4]
        half = sheet["hidden_size"] // 2
        sheet["axial_pos_embds_dim"] = [half, sheet["hidden_size"] - half]


def _picked_layers(sheet: _Sheet, plan: Plan) -> None:
    """Layers that a later part reads from: there are as many as it reads, and they are the first ones."""
    for name in ("out_indices", "backbone_out_indices", "extract_layers"):
        picks = sheet[name]
        if not isinstance(picks, (list, tuple)) or not all(isinstance(pick, int) and pick >= 0 for pick in picks):
            continue
        depth = next((d for d in _DEPTHS if isinstance(sheet[d], int)), None)
        old = read(sheet.default, depth) if depth else None
        if depth and old is not None:
            sheet[depth] = max(sheet[depth], len(picks))
        elif any(isinstance(sheet[d], (list, tuple)) for d in ("depths", "layer_depths")):
            continue  # stages stay as many as they are
        # Counted from 1 where the last layer has the number of layers.
        first = int(max(picks) == old)
        sheet[name] = type(picks)(range(first, first + len(picks)))


def _stage_channels(sheet: _Sheet, plan: Plan) -> None:
    """Channels into, inside and out of each stage are divided alike, as the widths that repeat them are."""
    if sheet.has("stem_channels", "stage_in_channels", "stage_out_channels") and not plan.keep_widths:
        for name in ("stage_in_channels", "stage_mid_channels", "stage_out_channels"):
            if name in sheet:
                sheet[name] = [channels // DIVISOR for channels in sheet[name]]
        image, *rest = sheet["stem_channels"]
        sheet["stem_channels"] = [image, *(channels // DIVISOR for channels in rest)]


def _repeated_widths(sheet: _Sheet, plan: Plan) -> None:
    """A list that repeats the encoder's width goes with it."""
    old, new = read(sheet.default, "encoder_hidden_dim"), sheet["encoder_hidden_dim"]
    for name in sheet.names() if isinstance(old, int) and old != new else ():
        entries = read(sheet.default, name)
        if isinstance(entries, (list, tuple)) and entries and all(entry == old for entry in entries):
            sheet[name] = type(entries)(new for _ in entries)


def _language(sheet: _Sheet, plan: Plan) -> None:
    """An adapter has to be chosen."""
    if sheet.has("languages") and "default_language" in sheet.names():
        sheet["default_language"] = sheet["languages"][0]


def _shared_key_values(sheet: _Sheet, plan: Plan) -> None:
    """Layers that reuse another layer's keys need one of their own kind before them."""
    if sheet["num_kv_shared_layers"]:
        kinds = sheet["layer_types"]
        sheet["num_kv_shared_layers"] = plan.depth // 2
        if isinstance(kinds, (list, tuple)):
            sheet["layer_types"] = [kinds[0]] * plan.depth


def _rotary_sections(sheet: _Sheet, plan: Plan) -> None:
    """Sections of a multimodal rotary embedding add up to half a head."""
    for name in ("rope_parameters", "rope_scaling"):
        rope = sheet[name]
        if not isinstance(rope, dict):
            continue
        rope = copy.deepcopy(rope)
        # The text part of a multimodal model splits its rotary embedding even where its defaults don't say so.
        text = "text" in str(read(sheet.default, "model_type"))
        for part in [rope, *(v for v in rope.values() if isinstance(v, dict))]:
            if "mrope_section" in part or (text and "rope_type" in part):
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
            if sheet.has("mamba_d_ssm"):
                sheet["mamba_d_ssm"] = sheet[heads] * plan.head_width
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
    _shared_key_values,
    _axial_positions,
    _picked_layers,
    _stage_channels,
    _repeated_widths,
    _language,
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
