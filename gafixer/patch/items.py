"""What a loss counts: a rule that turns a batch into its number of items.

A rule is found once, by the values of a loss call's target (`match`), and then counts the items of any other batch of
the window without running the model.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gafixer.patch import objects

__all__ = [
    "MICROBATCHES",
    "SAMPLES",
    "ItemRule",
    "Length",
    "View",
    "count",
    "match",
    "match_queries",
    "samples",
    "wide_float",
]

IGNORED = -100
"""PyTorch's default ignored label; collators write it whatever the loss ignores."""

Batch = Mapping[str, Any]


class View(enum.Enum):
    """Which entries of a batch's tensor are targets."""

    WHOLE = enum.auto()
    SHIFTED = enum.auto()  # all but the first of each row
    ATTENDED = enum.auto()  # where attention_mask is not 0
    SHIFTED_ATTENDED = enum.auto()
    OBJECTS = enum.auto()  # annotated boxes or masks; a loss that divides by their number divides by 1 without any
    QUERIES = enum.auto()  # what every query is to predict: the class of its object, or none
    ROWS = enum.auto()  # samples
    MICROBATCH = enum.auto()  # one, whatever is in it


@dataclass(frozen=True, slots=True)
class Length:
    """A length that differs from batch to batch: dimension 1 of `key`, plus `offset`."""

    key: str
    offset: int


@dataclass(frozen=True, slots=True)
class ItemRule:
    """The entries of `source` in `view` that are neither -100 nor `ignored` nor at or past `limit`.

    All, where `ignored` is None.

    `ends` are items that each row has on top: a shift that pads its end with a token scores that as well.

    With `class_weights` an item counts as much as its class weighs, as in a weighted `cross_entropy`. `queries` is how
    many each sample has, where they are what is scored.
    """

    source: str
    view: View
    ignored: int | None = None
    limit: Length | None = None
    class_weights: tuple[float, ...] | None = None
    queries: int = 0
    ends: int = 0


SAMPLES = ItemRule("", View.ROWS)
MICROBATCHES = ItemRule("", View.MICROBATCH)


def samples(batch: object) -> int:
    """The leading dimension that most tensors of a batch share; the length of a list; else 1."""
    if isinstance(batch, Mapping):
        sizes = Counter(v.shape[0] for v in batch.values() if isinstance(v, Tensor) and v.dim())
        return sizes.most_common(1)[0][0] if sizes else 1
    return len(batch) if isinstance(batch, (list, tuple)) else 1


def count(rule: ItemRule, batch: object) -> Tensor | float:
    """Items of `batch` under `rule`: a number, or a 0-dim tensor on the batch's device.

    Raises KeyError when the batch lacks what the rule reads.
    """
    match rule.view:
        case View.MICROBATCH:
            return 1.0
        case View.ROWS:
            return float(samples(batch))
    if not isinstance(batch, Mapping):
        raise KeyError(rule.source)
    if rule.view in (View.OBJECTS, View.QUERIES):
        return _count_objects(rule, objects.classes_of(batch, rule.source))
    items = _view(batch, rule.source, rule.view)
    valid = _valid(items, rule.ignored) if rule.limit is None else None
    if rule.limit is not None:
        past = _length(batch, rule.limit)
        valid = items < past if valid is None else valid & (items < past)
    if rule.class_weights is not None:
        weights = torch.tensor(rule.class_weights, dtype=wide_float(items.device), device=items.device)
        return weights[items if valid is None else items[valid]].sum()
    ends = rule.ends * (items.numel() // items.shape[-1]) if rule.ends else 0
    return float(items.numel() + ends) if valid is None else valid.sum() + ends


def _count_objects(rule: ItemRule, images: list[Tensor]) -> Tensor | float:
    number = sum(image.numel() for image in images)
    if rule.view is View.OBJECTS:
        return float(number)
    places = rule.queries * len(images)
    if rule.class_weights is None:
        return float(places)
    device = images[0].device
    weights = torch.tensor(rule.class_weights, dtype=wide_float(device), device=device)
    return weights[torch.cat(images)].sum() + weights[-1] * (places - number)


def wide_float(device: torch.device) -> torch.dtype:
    """The widest floats that a device has, for sums of counts."""
    return torch.float32 if device.type in ("mps", "xla") else torch.float64


def match(
    target: Tensor, batch: Batch, *, classes: int | None, ignored: int | None, class_weights: Tensor | None
) -> tuple[ItemRule, ...]:
    """The rules under which `batch` holds exactly the valid entries of `target`, best first.

    None when it isn't from there.

    `classes` is the size of the class dimension of the loss call: where the ignored label is that size, as for answer
    positions, it is taken for a length. More than one rule means that this batch can't tell them apart.
    """
    for keys in _sources(batch):
        for found in _fitting(target, batch, keys, classes, ignored):
            if found:
                weights = None if class_weights is None else tuple(class_weights.detach().double().tolist())
                limit = _limit(batch, ignored, classes)
                return tuple(replace(rule, limit=limit, class_weights=weights) for rule in _distinct(found, batch))
    return ()


def _fitting(
    target: Tensor, batch: Batch, keys: list[str], classes: int | None, ignored: int | None
) -> Iterator[list[ItemRule]]:
    """The rules that say what the target holds, by ever weaker likeness."""
    for fits in (_same_places, _same_values):
        yield [
            ItemRule(key, view, ignored)
            for key in keys
            for view in (View.WHOLE, View.SHIFTED, View.ATTENDED, View.SHIFTED_ATTENDED)
            if _applies(batch, key, view) and fits(target, _view(batch, key, view), ignored, classes)
        ]
    yield [
        ItemRule(key, View.SHIFTED, ignored, ends=1)
        for key in keys
        if _applies(batch, key, View.SHIFTED) and _ended(target, _view(batch, key, View.SHIFTED), ignored)
    ]


def match_queries(target: Tensor, batch: Batch, *, classes: int, class_weights: Tensor | None) -> tuple[ItemRule, ...]:
    """The rule of a loss call that scores queries against the objects of `batch`; none where it does not."""
    key = objects.source(batch)
    queries = None if key is None else objects.scored_by_queries(target, objects.classes_of(batch, key), classes)
    if key is None or queries is None:
        return ()
    weights = None if class_weights is None else tuple(class_weights.detach().double().tolist())
    return (ItemRule(key, View.QUERIES, class_weights=weights, queries=queries),)


def _distinct(found: list[ItemRule], batch: Batch) -> list[ItemRule]:
    """Drop attention views that say nothing more than the plain ones found before them."""
    plain = [rule for rule in found if rule.view in (View.WHOLE, View.SHIFTED)]
    return plain or found


def _sources(batch: Batch) -> tuple[list[str], list[str]]:
    """Keys of tensors, those that are named like targets first."""
    keys = [key for key, value in batch.items() if isinstance(value, Tensor) and value.dim() and value.numel()]
    likely = [key for key in keys if any(word in key for word in ("label", "position", "target"))]
    likely = [key for key in likely if key not in ("position_ids", "decoder_position_ids")]
    rest = [key for key in keys if key not in likely and not key.endswith(("mask", "position_ids"))]
    return likely, rest


def _applies(batch: Batch, key: str, view: View) -> bool:
    value: Tensor = batch[key]
    match view:
        case View.SHIFTED:
            return value.dim() >= 2 and value.shape[-1] > 1
        case View.ATTENDED | View.SHIFTED_ATTENDED:
            mask = batch.get("attention_mask")
            if not isinstance(mask, Tensor) or mask.shape != value.shape:
                return False
            return value.dim() >= 2 and value.shape[-1] > 1
    return True


def _view(batch: Batch, key: str, view: View) -> Tensor:
    value: Tensor = batch[key]
    match view:
        case View.SHIFTED:
            return value[..., 1:]
        case View.ATTENDED:
            return value[batch["attention_mask"] != 0]
        case View.SHIFTED_ATTENDED:
            return value[..., 1:][batch["attention_mask"][..., 1:] != 0]
    return value


def _valid(items: Tensor, ignored: int | None) -> Tensor | None:
    """Which entries are scored; None for all of them."""
    if ignored is None or items.is_floating_point():
        return None
    valid = items != IGNORED
    return valid if ignored == IGNORED else valid & (items != ignored)


def _limit(batch: Batch, ignored: int | None, classes: int | None) -> Length | None:
    if ignored is None or ignored < 0 or ignored != classes:
        return None
    for key in ("input_ids", "inputs_embeds", "attention_mask", "pixel_values", "input_values"):
        value = batch.get(key)
        if isinstance(value, Tensor) and value.dim() >= 2:
            return Length(key, ignored - value.shape[1])
    return None


def _length(batch: Batch, limit: Length) -> int:
    return int(batch[limit.key].shape[1]) + limit.offset


def _clean(items: Tensor, ignored: int | None, classes: int | None) -> Tensor:
    """Flat, as int64 or float64, with every ignored entry as -100 and answer positions clamped as heads clamp them."""
    items = items.detach().reshape(-1)
    if items.is_floating_point():
        return items.double()
    items = items.long()
    if ignored is not None and ignored == classes:
        items = items.clamp(0, ignored)
    return items if ignored in (None, IGNORED) else items.masked_fill(items == ignored, IGNORED)


def _pair(target: Tensor, items: Tensor, ignored: int | None, classes: int | None) -> tuple[Tensor, Tensor]:
    if target.is_floating_point() and not items.is_floating_point():
        items = items.to(target.dtype)
    elif target.is_floating_point():
        items = items.to(target.dtype)  # a head may have rounded float labels to its own dtype
    return _clean(target, ignored, classes), _clean(items.to(target.device), ignored, classes)


def _same_places(target: Tensor, items: Tensor, ignored: int | None, classes: int | None) -> bool:
    """Entry by entry the same, ignored ones too; a shift may have padded every row at its end."""
    ours, theirs = _pair(target, items, ignored, classes)
    if items.dim() >= 2 and ours.numel() == theirs.numel() // items.shape[-1] * (items.shape[-1] + 1):
        rows = ours.view(-1, items.shape[-1] + 1)
        return bool((rows[:, -1] == IGNORED).all()) and torch.equal(rows[:, :-1].reshape(-1), theirs)
    return ours.numel() == theirs.numel() and torch.equal(ours, theirs)


def _ended(target: Tensor, items: Tensor, ignored: int | None) -> bool:
    """The shifted entries, each row followed by one and the same scored entry."""
    ours, theirs = _pair(target, items, ignored, None)
    if target.is_floating_point() or ours.numel() != theirs.numel() // items.shape[-1] * (items.shape[-1] + 1):
        return False
    rows = ours.view(-1, items.shape[-1] + 1)
    ends = rows[:, -1]
    return bool((ends == ends[0]).all() and ends[0] != IGNORED) and torch.equal(rows[:, :-1].reshape(-1), theirs)


def _same_values(target: Tensor, items: Tensor, ignored: int | None, classes: int | None) -> bool:
    """The valid entries in the same order, once or (heads that predict several steps ahead) several times over."""
    ours, theirs = _pair(target, items, ignored, classes)
    if not target.is_floating_point():
        ours, theirs = ours[ours != IGNORED], theirs[theirs != IGNORED]
    if not theirs.numel() or ours.numel() % theirs.numel():
        return False
    times = ours.numel() // theirs.numel()
    return times > 0 and torch.equal(ours, theirs.repeat(times))
