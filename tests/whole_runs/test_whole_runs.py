"""A sample of the whole runs; `python -m tests.whole_runs` does them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import gafixer.patch
from tests.whole_runs import runs

if TYPE_CHECKING:
    from pathlib import Path

UPDATES = 4


@pytest.mark.parametrize("head", ["BertForTokenClassification", "GPT2DoubleHeadsModel"])
def test_every_split_ends_with_the_same_weights(head: str, tmp_path: Path) -> None:
    with gafixer.patch.patched():
        found = runs.ended(head, tmp_path, UPDATES, ranks=1)
    assert [run.split for run in found] == ["32x1", "16x2", "8x4", "4x8"]
    for run in found:
        assert run.excess < 1, run
        assert run.loss < 2e-4, run  # older releases round to four places


def test_without_the_patch_they_do_not(tmp_path: Path) -> None:
    with gafixer.patch.patched(on=False):
        found = runs.ended("BertForTokenClassification", tmp_path, UPDATES, ranks=1)
    assert max(run.excess for run in found) > 10
