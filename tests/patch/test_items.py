"""Rules: found by values, counted on other batches."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gafixer.patch.items import MICROBATCHES, SAMPLES, ItemRule, View, count, match, samples


def rules(target: torch.Tensor, batch: dict[str, torch.Tensor], **call: object) -> list[View]:
    found = match(target, batch, **{"classes": None, "ignored": -100, "class_weights": None, **call})  # type: ignore[arg-type]
    return [rule.view for rule in found]


def labels() -> torch.Tensor:
    return torch.tensor([[5, 6, 7, -100], [8, 9, -100, -100]])


def test_whole_labels() -> None:
    assert rules(labels().view(-1), {"labels": labels()}) == [View.WHOLE]


@pytest.mark.parametrize("padded", [True, False])
def test_shifted_labels_padded_or_cut(padded: bool) -> None:
    shifted = labels()[:, 1:]
    if padded:
        shifted = torch.nn.functional.pad(shifted, (0, 1), value=-100)
    assert rules(shifted.reshape(-1), {"labels": labels()}) == [View.SHIFTED]


def test_a_first_label_that_is_ignored_does_not_hide_the_shift() -> None:
    ours = labels().masked_fill(torch.tensor([True, False, False, False]), -100)
    assert rules(ours.view(-1), {"labels": ours}) == [View.WHOLE]
    assert rules(ours[:, 1:].reshape(-1), {"labels": ours}) == [View.SHIFTED]


def test_labels_selected_by_the_mask() -> None:
    mask = torch.tensor([[1, 1, 0, 1], [1, 0, 0, 0]])
    batch = {"labels": labels(), "attention_mask": mask}
    assert rules(labels()[mask == 1].float(), batch, ignored=None) == [View.ATTENDED]
    shifted = labels()[:, 1:][mask[:, 1:] == 1]
    assert rules(shifted, batch) == [View.SHIFTED_ATTENDED]


def test_targets_several_times_over() -> None:
    twice = labels().view(-1).repeat(2)
    assert rules(twice, {"labels": labels()}) == [View.WHOLE]


def test_same_numbers_of_items_are_no_match() -> None:
    assert rules(torch.tensor([1, 0]), {"labels": torch.tensor([0, 1]), "input_ids": torch.tensor([[3], [4]])}) == []


def test_answer_positions_past_the_end_are_not_scored() -> None:
    batch = {"input_ids": torch.zeros(4, 6, dtype=torch.long), "start_positions": torch.tensor([0, 5, 9, 6])}
    (rule,) = match(batch["start_positions"].clamp(0, 6), batch, classes=6, ignored=6, class_weights=None)
    assert float(count(rule, batch)) == 2
    longer = {"input_ids": torch.zeros(4, 7, dtype=torch.long), "start_positions": torch.tensor([0, 5, 9, 6])}
    assert float(count(rule, longer)) == 3


def test_weighted_classes_count_their_weight() -> None:
    batch = {"labels": torch.tensor([0, 1, 1, -100])}
    weights = torch.tensor([1.0, 3.0])
    (rule,) = match(batch["labels"], batch, classes=2, ignored=-100, class_weights=weights)
    assert float(count(rule, batch)) == 7


def test_float_targets_score_every_entry() -> None:
    batch = {"labels": torch.tensor([[0, 1], [-100, 1]])}
    (rule,) = match(batch["labels"].float(), batch, classes=None, ignored=None, class_weights=None)
    assert float(count(rule, batch)) == 4


def test_samples_are_the_dimension_that_most_tensors_share() -> None:
    batch = {"pixels": torch.zeros(3, 2), "labels": torch.zeros(3), "cache": torch.zeros(9), "flag": True}
    assert samples(batch) == 3
    assert count(SAMPLES, batch) == 3
    assert count(MICROBATCHES, batch) == 1


def test_a_batch_without_the_source_says_so() -> None:
    with pytest.raises(KeyError):
        count(ItemRule("labels", View.WHOLE, -100), {"input_ids": torch.zeros(1, 2)})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(-1, 6), min_size=5, max_size=5), min_size=1, max_size=4), st.booleans())
def test_a_match_counts_what_torch_divides_by(rows: list[list[int]], shift: bool) -> None:
    ours = torch.tensor([[-100 if value < 0 else value for value in row] for row in rows])
    target = (ours[:, 1:] if shift else ours).reshape(-1)
    found = match(target, {"labels": ours}, classes=7, ignored=-100, class_weights=None)
    assert float(count(found[0], {"labels": ours})) == int((target != -100).sum())


def test_a_shift_that_ends_each_row_with_a_token_scores_that_too() -> None:
    """As XGLM's did, with its padding token, up to 4.45."""
    batch = {"labels": torch.tensor([[5, 6, 7, -100], [8, 9, -100, -100]])}
    target = torch.tensor([[6, 7, -100, 1], [9, -100, -100, 1]]).reshape(-1)
    (rule,) = match(target, batch, classes=20, ignored=-100, class_weights=None)
    assert rule == ItemRule("labels", View.SHIFTED, -100, ends=1)
    assert float(count(rule, batch)) == float((target != -100).sum())
    other = torch.tensor([[6, 7, -100, 1], [9, -100, -100, 2]]).reshape(-1)
    assert match(other, batch, classes=20, ignored=-100, class_weights=None) == ()
