"""Tiny models, uneven batches and a reference, for the tests of the patch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
)

from gafixer.parity.reference import flat
from gafixer.parity.windows import Window, copy_of, split

if TYPE_CHECKING:
    from collections.abc import Callable

VOCABULARY = 60
LENGTH = 12
ITEMS = (2, 2, 12, 12, 3, 3, 10, 4)
"""Scored labels per sample."""

_BERT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "num_labels": 3,
}
_LLAMA: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def bert(kind: Any, **config: Any) -> Any:
    """A one-layer BERT head without dropout."""
    torch.manual_seed(0)
    return kind(BertConfig(**{**_BERT, **config}))


def llama() -> Any:
    """A one-layer Llama."""
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**_LLAMA))


def mixtral(**config: Any) -> Any:
    """A one-layer Mixtral of four experts."""
    torch.manual_seed(0)
    return MixtralForCausalLM(MixtralConfig(**{**_LLAMA, "num_local_experts": 4, **config}))


def tokens(classes: int = VOCABULARY) -> dict[str, torch.Tensor]:
    """Eight rows, labels from the first token on for as many as `ITEMS` says, -100 after."""
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 50, (len(ITEMS), LENGTH), generator=draw)
    labels = torch.full_like(ids, -100)
    for row, items in enumerate(ITEMS):
        labels[row, :items] = torch.randint(0, min(classes, 50), (items,), generator=draw)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def batch_of(**targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same rows with other targets."""
    inputs = tokens()
    del inputs["labels"]
    return {**inputs, **targets}


def window(batch: dict[str, torch.Tensor], sizes: tuple[int, ...] = (3, 2, 2, 1)) -> Window:
    """A ragged window."""
    return split(batch, sizes)


def gradient(model: Any, loss: torch.Tensor) -> torch.Tensor:
    """The gradient of a loss, flat; the model is left without any."""
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return taken(model)


def taken(model: Any) -> torch.Tensor:
    """The gradient that has gathered in a model, flat, and taken out of it."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    found = flat([p.grad for p in parameters], parameters)
    model.zero_grad(set_to_none=True)
    return found


def reference(
    model: Any,
    batch: dict[str, torch.Tensor],
    loss_of: Callable[[Any, dict[str, torch.Tensor]], torch.Tensor] | None = None,
) -> tuple[torch.Tensor, float]:
    """Gradient and loss of the whole batch: the head's own loss, or `loss_of(model, batch)`."""
    model.train()
    loss = model(**copy_of(batch)).loss if loss_of is None else loss_of(model, copy_of(batch))
    return gradient(model, loss), float(loss.detach())


__all__ = [
    "BertForMaskedLM",
    "BertForPreTraining",
    "BertForQuestionAnswering",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "batch_of",
    "bert",
    "gradient",
    "llama",
    "mixtral",
    "reference",
    "taken",
    "tokens",
    "window",
]
