"""Windows with very uneven counts for each task and variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gafixer.parity import media
from gafixer.parity.inputs import IGNORED, Draw, Feed, text
from gafixer.parity.models import LABELS
from gafixer.parity.tasks import Problem, Task
from gafixer.parity.windows import Window, split

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EVEN", "RAGGED", "Variant", "variants", "window_for"]

# Tokens of each row, two rows to a microbatch: 30, 7, 12 and 11 tokens.
_LENGTHS = (16, 14, 3, 4, 9, 3, 5, 6)
EVEN = (2, 2, 2, 2)
RAGGED = (3, 2, 2, 1)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to train a head: what its targets look like and how the window is split.

    `first_scored` makes the first label of each row one that counts: a causal head shifts it away. `images` asks for
    an image beside each text, from models that see.
    """

    name: str
    sizes: tuple[int, ...] = EVEN
    problem: Problem | None = None
    first_scored: bool = False
    images: bool = False


_LANGUAGE = (Variant("first label ignored"), Variant("first label scored", first_scored=True))
_BOTH = (Variant("even"), Variant("ragged", RAGGED))
_PROBLEMS = tuple(
    Variant(f"{problem.name.lower().replace('_', ' ')}, {name}", sizes, problem)
    for problem in Problem
    for name, sizes in (("even", EVEN), ("ragged", RAGGED))
)
_VARIANTS: dict[Task, tuple[Variant, ...]] = {
    Task.CAUSAL_LM: _LANGUAGE,
    Task.CONDITIONAL_GENERATION: (*_LANGUAGE, Variant("with images", images=True)),
    Task.SEQUENCE_CLASSIFICATION: _PROBLEMS,
    Task.IMAGE_CLASSIFICATION: _PROBLEMS,
    Task.VIDEO_CLASSIFICATION: _PROBLEMS,
    Task.AUDIO_CLASSIFICATION: _PROBLEMS[:2],
}
_UNEVEN_BY_TARGETS = frozenset(
    {
        Task.MASKED_LM,
        Task.TOKEN_CLASSIFICATION,
        Task.PRETRAINING,
        Task.DOUBLE_HEADS,
        Task.SEMANTIC_SEGMENTATION,
        Task.INSTANCE_SEGMENTATION,
        Task.OBJECT_DETECTION,
    }
)


def variants(task: Task) -> tuple[Variant, ...]:
    """The ways to train a head of this task."""
    if task in _UNEVEN_BY_TARGETS:
        return (Variant("uneven"),)
    return _VARIANTS.get(task, _BOTH)


def _language(draw: Draw, variant: Variant) -> dict[str, Any]:
    inputs, ids, mask = draw.batch()
    if getattr(draw.model.config, "is_encoder_decoder", False):
        # The targets are a text of their own, their lengths the other way round.
        ids, mask = text(draw.model.config, draw.lengths[::-1], draw.generator)
    labels = ids.masked_fill(mask == 0, IGNORED)
    labels[:, : draw.feed.marks] = IGNORED
    if not variant.first_scored:
        labels[:, 0] = IGNORED
    return {**inputs, "labels": labels}


def _masked(draw: Draw, variant: Variant) -> dict[str, Any]:
    inputs, ids, mask = draw.batch()
    return {**inputs, "labels": ids.masked_fill(~_chosen(mask, draw), IGNORED)}


def _chosen(mask: torch.Tensor, draw: Draw) -> torch.Tensor:
    """About half of the real tokens, at least one in each row."""
    chosen = (torch.rand(mask.shape, generator=draw.generator) < 0.5) & (mask == 1)
    chosen[:, 1] = True
    return chosen


def _token_classes(draw: Draw, variant: Variant) -> dict[str, Any]:
    inputs, ids, mask = draw.batch()
    labels = torch.randint(0, LABELS, ids.shape, generator=draw.generator)
    return {**inputs, "labels": labels.masked_fill(mask == 0, IGNORED)}


def _classes(draw: Draw, variant: Variant) -> dict[str, Any]:
    inputs, ids, _ = draw.batch()
    match variant.problem:
        case Problem.REGRESSION:
            labels = torch.randn(len(ids), generator=draw.generator)
        case Problem.MULTI_LABEL:
            labels = torch.randint(0, 2, (len(ids), LABELS), generator=draw.generator).float()
        case _:
            labels = torch.randint(0, LABELS, (len(ids),), generator=draw.generator)
    return {**inputs, "labels": labels}


def _binary(draw: Draw, variant: Variant) -> dict[str, Any]:
    inputs, ids, _ = draw.batch()
    return {**inputs, "labels": torch.randint(0, 2, (len(ids),), generator=draw.generator)}


def _spans(draw: Draw, variant: Variant) -> dict[str, Any]:
    inputs, _, _ = draw.batch()
    ends = [[int(torch.randint(0, n, (1,), generator=draw.generator)) for n in draw.lengths] for _ in range(2)]
    return {**inputs, "start_positions": torch.tensor(ends[0]), "end_positions": torch.tensor(ends[1])}


def _choices(inputs: dict[str, Any]) -> dict[str, Any]:
    """Two choices per sample, alike: (rows, ...) becomes (rows, 2, ...)."""
    return {name: value.unsqueeze(1).expand(-1, 2, *value.shape[1:]).contiguous() for name, value in inputs.items()}


def _multiple_choice(draw: Draw, variant: Variant) -> dict[str, Any]:
    inputs, ids, _ = draw.batch()
    inputs = _choices(inputs)
    other, _, _ = draw.batch()
    for name, value in other.items():  # a second choice that differs from the first
        inputs[name][:, 1] = value
    return {**inputs, "labels": torch.randint(0, 2, (len(ids),), generator=draw.generator)}


def _pretraining(draw: Draw, variant: Variant) -> dict[str, Any]:
    inputs, ids, mask = draw.batch()
    discriminates = getattr(draw.model.config, "generator_hidden_size", None) or hasattr(
        draw.model, "discriminator_predictions"
    )
    if discriminates:  # every token is scored: replaced or not
        labels = torch.randint(0, 2, ids.shape, generator=draw.generator)
    else:
        labels = ids.masked_fill(~_chosen(mask, draw), IGNORED)
    if "labels" in draw.parameters:
        inputs["labels"] = labels
    for name in ("next_sentence_label", "sentence_order_label"):
        if name in draw.parameters:
            inputs[name] = torch.randint(0, 2, (len(ids),), generator=draw.generator)
    return inputs


def _double(draw: Draw, variant: Variant) -> dict[str, Any]:
    inputs, ids, mask = draw.batch()
    inputs = _choices(inputs)
    labels = ids.masked_fill(mask == 0, IGNORED)
    labels[:, 0] = IGNORED
    return {
        **inputs,
        **_choices({"labels": labels}),
        "mc_labels": torch.randint(0, 2, (len(ids),), generator=draw.generator),
        "mc_token_ids": torch.zeros(len(ids), 2, dtype=torch.long),
    }


_TARGETS: dict[Task, Callable[[Draw, Variant], dict[str, Any]]] = {
    Task.CAUSAL_LM: _language,
    Task.CONDITIONAL_GENERATION: _language,
    Task.SPEECH_GENERATION: _language,
    Task.MASKED_LM: _masked,
    Task.TOKEN_CLASSIFICATION: _token_classes,
    Task.SEQUENCE_CLASSIFICATION: _classes,
    Task.IMAGE_CLASSIFICATION: _classes,
    Task.VIDEO_CLASSIFICATION: _classes,
    Task.AUDIO_CLASSIFICATION: _classes,
    Task.XVECTOR: _classes,
    Task.NEXT_SENTENCE: _binary,
    Task.QUESTION_ANSWERING: _spans,
    Task.MULTIPLE_CHOICE: _multiple_choice,
    Task.PRETRAINING: _pretraining,
    Task.DOUBLE_HEADS: _double,
    Task.CTC: lambda draw, variant: media.transcripts(draw),
    Task.TRANSDUCER: lambda draw, variant: media.transcripts(draw),
    Task.AUDIO_FRAME_CLASSIFICATION: lambda draw, variant: media.frames(draw),
    Task.SEMANTIC_SEGMENTATION: lambda draw, variant: media.pixels(draw),
    Task.INSTANCE_SEGMENTATION: lambda draw, variant: media.masks(draw),
    Task.OBJECT_DETECTION: lambda draw, variant: media.boxes(draw),
    Task.DEPTH_ESTIMATION: lambda draw, variant: media.depths(draw),
    Task.IMAGE_TEXT_MATCHING: _binary,
    Task.OTHER: _language,  # a guess; most of these have no loss at all, and say so
}


def _repeated(pattern: tuple[int, ...], count: int) -> tuple[int, ...]:
    return tuple(pattern[i % len(pattern)] for i in range(count))


def window_for(
    model: Any,
    task: Task,
    variant: Variant,
    *,
    microbatches: int = 4,
    feed: Feed = Feed(),  # noqa: B008  # frozen
    seed: int = 3,
) -> Window:
    """A window for the model.

    Raises:
        NotImplementedError: where no batch is known for the task.
    """
    make = _TARGETS.get(task)
    if make is None:
        raise NotImplementedError(f"no batch is known for {task.value}")
    sizes = _repeated(variant.sizes, microbatches)
    draw = Draw(model, _repeated(_LENGTHS, sum(sizes)), torch.Generator().manual_seed(seed), feed)
    return split(make(draw, variant), sizes)
