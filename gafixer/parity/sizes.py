"""How small each number of a configuration may be made, told from the attribute's name and its default value."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["DIVISOR", "LENGTH", "PLANS", "VOCABULARY", "Plan", "Role", "role_of", "small"]

VOCABULARY = 99
LENGTH = 16  # tokens per row
DIVISOR = 8  # of widths per stage


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to be small. Widths are `heads` × `head_width`, so that the usual divisibility holds."""

    heads: int = 4
    key_heads: int = 2
    head_width: int = 8
    depth: int = 2
    image: int = 64
    keep_widths: bool = False
    keep_images: bool = False

    @property
    def width(self) -> int:
        """Hidden size."""
        return self.heads * self.head_width


# Tried in this order until the class builds and runs.
PLANS = (
    Plan(),
    Plan(head_width=16),
    Plan(key_heads=4),
    Plan(head_width=16, key_heads=4, depth=4),
    Plan(head_width=32, key_heads=4, depth=4),
    Plan(keep_images=True),
    Plan(keep_widths=True),
    Plan(keep_widths=True, depth=4),
    Plan(keep_widths=True, keep_images=True),
)


class Role(enum.Enum):
    """What a number of a configuration measures."""

    VOCABULARY = enum.auto()
    DEPTH = enum.auto()
    HEADS = enum.auto()
    KEY_HEADS = enum.auto()
    HEAD_WIDTH = enum.auto()
    INNER = enum.auto()
    WIDTH = enum.auto()
    EXPERTS = enum.auto()
    CHOSEN_EXPERTS = enum.auto()
    ONE = enum.auto()
    DENSE_LAYERS = enum.auto()
    RANK = enum.auto()
    POSITIONS = enum.auto()
    FRAMES = enum.auto()
    CHUNK = enum.auto()
    STATE = enum.auto()
    QUERIES = enum.auto()
    IMAGE = enum.auto()
    RANDOM = enum.auto()
    KEEP = enum.auto()


# First that matches the whole name.
_NAMES: tuple[tuple[str, Role], ...] = (
    (
        r"type_vocab_sizes?|num_feat_extract_layers|.*_layers_per_block|.*_per_stage|num_conv_layers|hidden_size_ratio",
        Role.KEEP,
    ),
    (r".*drop.*|mask_(time|feature)_prob|.*jitter.*|layerdrop|stochastic_depth.*", Role.RANDOM),
    (r"(.*_)?vocab_size(_.*)?|n_words|n_vocab|vocab_size_or_config_json_file", Role.VOCABULARY),
    (r"first_k_dense_replace|num_dense_layers|n_dense_layers|moe_layer_start_index|dense_layers", Role.DENSE_LAYERS),
    (r"n_group|topk_group|num_expert_groups?|num_cross_attention_heads", Role.ONE),
    (r"num_latents", Role.QUERIES),
    (
        r"(num|n)_(.*_)?(layers?|blocks?)|(.*_)?(en|de)coder_(num_(.*_)?)?layers|depth|layers|[lxr]_layers|num_self_attends_per_block",
        Role.DEPTH,
    ),
    (r"(.*_)?(num_key_value_heads|num_kv_heads|multi_query_group_num|n_head_kv|num_key_value_groups)", Role.KEY_HEADS),
    (r"(.*_)?(num|n)_(.*_)?heads?|(.*_)?attention_heads", Role.HEADS),
    (r"(.*_)?head_dim|d_kv|(attention_)?head_size|kv_channels|d_head|dim_head", Role.HEAD_WIDTH),
    (
        r"(.*_)?(intermediate_(size|dim)(_mlp)?|ffn_dim|d_ff|n_inner|d_inner|ffn_hidden_size|mlp_dim|inner_dim)",
        Role.INNER,
    ),
    (r"feed_forward_size|ff_dim|(.*_)?feedforward_dim|dim_feedforward|block_ff_dim", Role.INNER),
    (r"(num|n)_(.*_)?experts|moe_num_experts", Role.EXPERTS),
    (
        r"num_experts_per_(tok|token)|(moe_|experts?_)?top_?k(_experts)?|moe_router_topk|moe_k|num_selected_experts",
        Role.CHOSEN_EXPERTS,
    ),
    (r".*_lora_rank|.*laurel_rank", Role.RANK),
    (r"max_source_positions", Role.FRAMES),
    (
        r"max_(.*_)?positions?(_embeddings)?|n_positions|n_ctx|max_seq(uence)?_?len(gth)?|seq_length|context_length",
        Role.POSITIONS,
    ),
    (r"(.*_)?(chunk_size|chunk_len)|attention_window", Role.CHUNK),
    (r"(.*_)?(state_size|d_state|ssm_state_size)", Role.STATE),
    (r"num_(object_)?queries|num_denoising|train_num_points", Role.QUERIES),
    (r"((pretrain_)?image|img|input)_size", Role.IMAGE),
    (
        r"(.*_)?(hidden_(sizes?|dims?)|d_model|n_embd|embed(ding)?_(dims?|size)|emb_dim|d_embed|model_dim|d_latents|conv_dim)",
        Role.WIDTH,
    ),
    (
        r"dim|input_dim|(.*_)?projection_(dim|size)|lru_width|rnn_hidden|hidden_size_per_layer_input|emb_hidden",
        Role.WIDTH,
    ),
    (r"pooler_output_size|out_hidden_size|feature_projection_input_dim|encoder_hidden|decoder_hidden", Role.WIDTH),
)
_ROLES = tuple((re.compile(pattern), role) for pattern, role in _NAMES)


def role_of(name: str) -> Role:
    """What the attribute of that name measures; KEEP where the name says nothing."""
    return next((role for pattern, role in _ROLES if pattern.fullmatch(name)), Role.KEEP)


def _limit(role: Role, plan: Plan) -> int | None:
    """The size for a role; None where the plan leaves the default alone."""
    if plan.keep_widths and role in (Role.HEADS, Role.KEY_HEADS, Role.HEAD_WIDTH, Role.WIDTH, Role.INNER, Role.RANK):
        return None
    match role:
        case Role.IMAGE:
            return None if plan.keep_images else plan.image
        case Role.KEEP | Role.RANDOM:
            return None
        case _:
            return {
                Role.VOCABULARY: VOCABULARY,
                Role.DEPTH: plan.depth,
                Role.HEADS: plan.heads,
                Role.KEY_HEADS: plan.key_heads,
                Role.HEAD_WIDTH: plan.head_width,
                Role.INNER: 2 * plan.width,
                Role.WIDTH: plan.width,
                Role.EXPERTS: 4,
                Role.CHOSEN_EXPERTS: 2,
                Role.ONE: 1,
                Role.DENSE_LAYERS: 1,
                Role.RANK: 16,
                Role.POSITIONS: 256,
                Role.FRAMES: 32,
                Role.CHUNK: 16,
                Role.STATE: 8,
                Role.QUERIES: 8,
            }[role]


# A default of None is filled in by checkpoints; the class itself cannot do without.
_NEVER_NONE = frozenset({Role.VOCABULARY, Role.HEAD_WIDTH, Role.EXPERTS, Role.CHOSEN_EXPERTS, Role.ONE})


def _fixed(role: Role) -> bool:
    """Whether every configuration gets this very size, larger or smaller than its default."""
    return role in (Role.WIDTH, Role.INNER, Role.HEADS, Role.HEAD_WIDTH, Role.VOCABULARY, Role.RANK)


def _small_list(role: Role, value: Any, size: int) -> Any:
    """Widths per stage are divided alike: their ratios are tied to the heads per stage."""
    match role:
        case Role.IMAGE | Role.VOCABULARY | Role.INNER | Role.EXPERTS | Role.CHUNK:
            return type(value)(min(x, size) for x in value)
        case Role.WIDTH if all(x % DIVISOR == 0 for x in value):
            return type(value)(x // DIVISOR for x in value)
        case _:
            return value


def small(name: str, value: Any, plan: Plan) -> Any:
    """The value to give the attribute: `value` itself where there is nothing to make smaller."""
    role = role_of(name)
    if role is Role.RANDOM:
        match value:
            case bool() | None | str():
                return value
            case list() | tuple():
                return type(value)(type(x)(0) for x in value)
            case _:
                return type(value)(0)
    size = _limit(role, plan)
    match value:
        case _ if size is None:
            return value
        case None:
            return size if role in _NEVER_NONE else None
        case bool():
            return value
        case int():
            return size if _fixed(role) else min(value, size)
        case list() | tuple() if value and all(type(x) is int for x in value):
            return _small_list(role, value, size)
        case _:
            return value
