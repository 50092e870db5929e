"""Cutting batches into windows and back."""

from __future__ import annotations

import pytest
import torch

from gafixer.parity.windows import Window, copy_of, join, rows, split


def batch_of(samples: int) -> dict[str, object]:
    return {
        "ids": torch.arange(samples * 3).reshape(samples, 3),
        "boxes": [{"n": torch.tensor(i)} for i in range(samples)],
    }


def test_a_window_is_its_batch_again() -> None:
    batch = batch_of(8)
    window = split(batch, (3, 2, 2, 1))
    assert window.sizes == (3, 2, 2, 1)
    whole = window.whole()
    assert torch.equal(whole["ids"], batch["ids"])  # type: ignore[arg-type]  # a tensor by construction
    assert [int(box["n"]) for box in whole["boxes"]] == list(range(8))


def test_sizes_must_add_up() -> None:
    with pytest.raises(ValueError, match="do not add up to 8"):
        split(batch_of(8), (4, 3))


def test_differently_padded_microbatches_are_refused() -> None:
    with pytest.raises(ValueError, match="padded to different shapes"):
        join(({"ids": torch.zeros(2, 3)}, {"ids": torch.zeros(2, 4)}))


def test_plain_values_must_agree() -> None:
    with pytest.raises(ValueError, match="differs between microbatches"):
        join(({"ids": torch.zeros(1, 1), "flag": True}, {"ids": torch.zeros(1, 1), "flag": False}))


def test_a_batch_without_tensors_has_no_samples() -> None:
    with pytest.raises(ValueError, match="no samples"):
        rows({"flag": True})


def test_a_copy_shares_nothing() -> None:
    batch = batch_of(2)
    copied = copy_of(batch)
    copied["ids"].zero_()
    copied["boxes"][1]["n"].zero_()
    assert Window((batch,)).whole()["ids"].sum() == 15
    assert int(batch["boxes"][1]["n"]) == 1  # type: ignore[index]  # a list by construction
