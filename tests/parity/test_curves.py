"""The curves of one batch: apart as released, one with the patch, on whatever release is installed."""

from __future__ import annotations

import pytest

from gafixer.parity.curves import BATCH, SPLITS, TRAINED, Split, curves
from gafixer.parity.heads import find_head

WAYS = (Split(BATCH, 1), Split(8, 4), Split(8, 2, 2))


def test_every_split_makes_up_the_batch() -> None:
    assert {way.samples * way.steps * way.processes for way in SPLITS} == {BATCH}


def test_apart_as_released_and_one_when_patched() -> None:
    drawn = curves(find_head(TRAINED), steps=3, ways=WAYS)
    assert [(c.split, c.patched) for c in drawn] == [(way, patched) for patched in (False, True) for way in WAYS]
    one, four, _, same, patched, ranks = (c.losses for c in drawn)
    assert one == pytest.approx(same, abs=1e-6)  # an unsplit batch is right either way
    assert abs(four[-1] - one[-1]) > 1e-3
    assert patched == pytest.approx(one, abs=1e-5)
    assert ranks == pytest.approx(one, abs=1e-5)
    assert one[-1] < one[0]
