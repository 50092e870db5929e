"""Detection: classes weighed against no object, boxes over the number of objects, whatever each microbatch holds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # torch's own documentation calls it so

from gafixer.parity.drive import drive_trainer
from gafixer.parity.figures import relative_error
from gafixer.parity.ranks import drive_ranks
from gafixer.parity.reference import flat
from gafixer.parity.windows import Window, copy_of, split
from gafixer.patch.items import ItemRule, View, count, match_queries
from gafixer.patch.objects import source

QUERIES, CLASSES, SIZE = 6, 3, 4
"""Queries per image, kinds of objects, features per image."""

OBJECTS = (5, 4, 0, 0, 1, 2, 0, 3)
"""Per image: the second microbatch has none."""


class Detector(torch.nn.Module):
    """Matches the objects of an image to its first queries, in order."""

    def __init__(self, *, weighted: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.classes = torch.nn.Linear(SIZE, QUERIES * (CLASSES + 1))
        self.boxes = torch.nn.Linear(SIZE, QUERIES * 4)
        self.weight = torch.tensor([1.0, 1.0, 1.0, 0.1]) if weighted else None

    def forward(self, pixel_values: torch.Tensor, labels: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        """Classes by cross-entropy over all queries; boxes by l1 and by a term of its own, both over the objects."""
        logits = self.classes(pixel_values).view(-1, QUERIES, CLASSES + 1)
        boxes = self.boxes(pixel_values).view(-1, QUERIES, 4)
        target = torch.full(logits.shape[:2], CLASSES)
        for row, label in zip(target, labels, strict=True):
            row[: len(label["class_labels"])] = label["class_labels"]
        matched = torch.cat([b[: len(label["boxes"])] for b, label in zip(boxes, labels, strict=True)])
        right = torch.cat([label["boxes"] for label in labels])
        objects = max(len(right), 1)
        loss = F.cross_entropy(logits.transpose(1, 2), target, self.weight)
        loss = loss + 5 * F.l1_loss(matched, right, reduction="none").sum() / objects
        loss = loss + 2 * (matched.amax(-1) - right.amin(-1)).square().sum() / objects
        return {"loss": loss, "logits": logits}


def images() -> dict[str, Any]:
    draw = torch.Generator().manual_seed(1)
    labels = [
        {
            "class_labels": torch.randint(0, CLASSES, (objects,), generator=draw),
            "boxes": torch.rand(objects, 4, generator=draw),
        }
        for objects in OBJECTS
    ]
    return {"pixel_values": torch.randn(len(OBJECTS), SIZE, generator=draw), "labels": labels}


def reference(model: torch.nn.Module, window: Window) -> tuple[torch.Tensor, float]:
    loss = model(**copy_of(window.whole()))["loss"]
    loss.backward()
    parameters = list(model.parameters())
    vector = flat([p.grad for p in parameters], parameters)
    model.zero_grad()
    return vector, float(loss.detach())


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (3, 2, 2, 1), (2, 6)])
def test_the_trainer_meets_the_reference(sizes: tuple[int, ...], weighted: bool) -> None:
    model, window = Detector(weighted=weighted), split(images(), sizes)
    right, loss = reference(model, window)
    driven = drive_trainer(model, window)
    assert relative_error(driven.vector, right) < 2e-6
    assert driven.logged == pytest.approx(loss, rel=1e-4)


def test_objects_of_annotations_and_of_lists_of_classes() -> None:
    batch = images()
    assert count(ItemRule("labels", View.OBJECTS), batch) == sum(OBJECTS)
    lists = {"pixel_values": batch["pixel_values"], "class_labels": [x["class_labels"] for x in batch["labels"]]}
    assert source(lists) == "class_labels"
    assert count(ItemRule("class_labels", View.OBJECTS), lists) == sum(OBJECTS)


@pytest.mark.parametrize(
    "batch",
    [{"labels": torch.tensor([1, 2])}, {"labels": []}, {"labels": [[1, 2], [3]]}, {"labels": ["a", "b"]}, [1, 2]],
)
def test_other_batches_hold_no_objects(batch: object) -> None:
    assert source(batch) is None


def test_queries_that_predict_other_classes_are_no_match() -> None:
    batch = {"labels": [{"class_labels": torch.tensor([0, 2])}, {"class_labels": torch.tensor([1])}]}
    matched = torch.tensor([[3, 2, 0], [3, 3, 1]])
    weights = torch.tensor([1.0, 2.0, 4.0, 0.5])
    (rule,) = match_queries(matched, batch, classes=4, class_weights=weights)
    assert float(count(rule, batch)) == float(weights[matched].sum())
    assert match_queries(matched.clamp(max=2), batch, classes=4, class_weights=None) == ()


@pytest.mark.usefixtures("patched")
def test_over_several_ranks_microbatches_weigh_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads divide by a mean of the ranks' objects, which no rank knows beforehand."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # or Accelerate warns
    model, window = Detector(weighted=True), split(images(), (1,) * len(OBJECTS))
    means = [reference(model, Window((microbatch,)))[0] for microbatch in window.microbatches]
    driven = drive_ranks(model, window, 2)
    assert relative_error(driven.vector, torch.stack(means).mean(0)) < 2e-6
