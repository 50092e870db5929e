"""Two ranks over gloo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import transformers
from packaging.version import Version

from gafixer.parity.batches import variants
from gafixer.parity.heads import find_head
from gafixer.parity.measure import Setting, drive_case, prepare
from gafixer.parity.ranks import drive_ranks

if TYPE_CHECKING:
    from gafixer.parity.figures import Figures

RELEASE = Version(transformers.__version__)


def figures_of(name: str, steps: int) -> Figures:
    head, setting = find_head(name), Setting(steps=steps, processes=2)
    outcome = drive_case(prepare(head, variants(head.task)[0], setting), setting)
    assert outcome.figures is not None, outcome.reason
    return outcome.figures


@pytest.mark.skipif(Version("5.9") > RELEASE, reason="describes releases from 5.9 on")
def test_ranks_alone_make_a_head_twice_too_large() -> None:
    figures = figures_of("BertForSequenceClassification", steps=1)
    assert figures.ratio == pytest.approx(2, abs=1e-4)
    assert figures.cosine == pytest.approx(1, abs=1e-6)


@pytest.mark.skipif(Version("5.9") > RELEASE, reason="describes releases from 5.9 on")
def test_a_head_that_honours_the_count_has_parity_over_ranks() -> None:
    assert figures_of("LlamaForCausalLM", steps=2).ok


def test_microbatches_must_deal_out_evenly() -> None:
    head = find_head("BertForMaskedLM")
    case = prepare(head, variants(head.task)[0])
    with pytest.raises(ValueError, match="4 microbatches"):
        drive_ranks(case.tiny.model, case.window, 3)
