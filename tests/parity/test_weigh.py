"""Exactly weighted microbatches rebuild the loss of the whole window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # torch's own documentation calls it so

from gafixer.parity.weigh import Recorder, Weigher

if TYPE_CHECKING:
    from collections.abc import Callable

IGNORED = -100
CLASSES = 5
SIZES = [5, 1, 2]


def _labels(generator: torch.Generator) -> torch.Tensor:
    labels = torch.randint(0, CLASSES, (8,), generator=generator)
    labels[[1, 5, 6]] = IGNORED
    return labels


WEIGHT = torch.tensor([0.1, 0.5, 1.0, 2.0, 4.0], dtype=torch.float64)
LOSSES: dict[
    str, Callable[[torch.Tensor, torch.Generator], tuple[torch.Tensor, Callable[[Any, Any], torch.Tensor]]]
] = {
    "ignored labels": lambda x, g: (_labels(g), F.cross_entropy),
    "label smoothing": lambda x, g: (_labels(g), lambda a, b: F.cross_entropy(a, b, label_smoothing=0.1)),
    "class weights": lambda x, g: (_labels(g), lambda a, b: F.cross_entropy(a, b, weight=WEIGHT)),
    "own ignored label": lambda x, g: (_labels(g).clamp_min(-1), lambda a, b: F.cross_entropy(a, b, ignore_index=-1)),
    "probabilities": lambda x, g: (torch.rand(8, CLASSES, generator=g, dtype=x.dtype), F.cross_entropy),
    "log likelihood": lambda x, g: (_labels(g), lambda a, b: F.nll_loss(a.log_softmax(-1), b)),
    "module": lambda x, g: (_labels(g), torch.nn.CrossEntropyLoss()),
    "regression": lambda x, g: (torch.rand(8, CLASSES, generator=g, dtype=x.dtype), F.mse_loss),
    "multi label": lambda x, g: (
        torch.randint(0, 2, (8, CLASSES), generator=g).to(x.dtype),
        F.binary_cross_entropy_with_logits,
    ),
    "divergence": lambda x, g: (
        torch.rand(8, CLASSES, generator=g, dtype=x.dtype).softmax(-1),
        lambda a, b: F.kl_div(a.log_softmax(-1), b, reduction="batchmean"),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_weighted_means_add_up_to_the_mean_of_the_whole(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(8, CLASSES, generator=generator, dtype=torch.float64)
    target, loss = LOSSES[name](logits, generator)
    items = []
    for x, y in zip(torch.split(logits, SIZES), torch.split(target, SIZES), strict=True):
        with Recorder() as recorder:
            loss(x, y)
        items.append(recorder.items)
    assert [len(i) for i in items] == [1, 1, 1]
    total = torch.zeros((), dtype=torch.float64)
    for x, y, (count,) in zip(torch.split(logits, SIZES), torch.split(target, SIZES), items, strict=True):
        with Weigher([count / sum(n for (n,) in items)]):
            total = total + loss(x, y)
    torch.testing.assert_close(total, loss(logits, target), rtol=1e-12, atol=0)


def test_a_microbatch_without_items_counts_for_nothing() -> None:
    labels = torch.full((4,), IGNORED)
    logits = torch.randn(4, CLASSES)
    assert F.cross_entropy(logits, labels).isnan()
    with Weigher([0.0]):
        assert F.cross_entropy(logits, labels) == 0


def test_each_term_has_its_own_share() -> None:
    logits = torch.ones(2, CLASSES)
    with Weigher([0.25, 0.5]):
        first = F.cross_entropy(logits, torch.tensor([0, 1]))
        second = F.mse_loss(logits, torch.zeros_like(logits))
    torch.testing.assert_close(first, 0.25 * torch.tensor(float(CLASSES)).log())
    torch.testing.assert_close(second, torch.tensor(0.5))


def test_sums_are_left_alone() -> None:
    with Recorder() as recorder:
        F.cross_entropy(torch.ones(2, CLASSES), torch.tensor([0, 1]), reduction="sum")
    assert recorder.items == []


def test_a_ctc_mean_is_over_samples_also_where_targets_are_one_long_row() -> None:
    targets, lengths = torch.tensor([1, 2, 1, 2, 2, 1]), torch.tensor([3, 1, 2])
    log_probs = torch.randn(8, 3, CLASSES).log_softmax(-1)
    with Recorder() as recorder:
        F.ctc_loss(log_probs, targets, torch.tensor([8, 8, 8]), lengths)
    assert recorder.items == [3.0]
