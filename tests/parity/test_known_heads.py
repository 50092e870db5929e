"""The probe against facts that are known from elsewhere, on whatever release is installed."""

from __future__ import annotations

import pytest
import transformers
from packaging.version import Version

from gafixer.parity.figures import Figures, Held, Verdict
from gafixer.parity.heads import find_head
from gafixer.parity.measure import measure_head

RELEASE = Version(transformers.__version__)
MODERN = pytest.mark.skipif(Version("5.9") > RELEASE, reason="describes releases from 5.9 on")
DIVIDES_ONCE = not Version("5.2") <= RELEASE < Version("5.5.4")


def figures_of(name: str) -> dict[str, Figures]:
    outcomes = list(measure_head(find_head(name)))
    assert all(outcome.figures for outcome in outcomes), outcomes
    return {outcome.variant: outcome.figures for outcome in outcomes if outcome.figures is not None}


@MODERN
def test_a_classifier_that_drops_the_count_is_too_large_by_the_steps() -> None:
    figures = figures_of("BertForSequenceClassification")["single label, even"]
    assert figures.verdict is Verdict.SUM_OF_MEANS
    assert figures.ratio == pytest.approx(4.0, abs=1e-4)
    assert figures.cosine == pytest.approx(1.0, abs=1e-6)
    assert figures.logged == pytest.approx(4 * figures.loss, rel=1e-4)
    assert not figures.logged_ok


@pytest.mark.skipif(Version("4.46") > RELEASE or not DIVIDES_ONCE, reason="describes releases that divide once")
def test_a_causal_head_that_honours_the_count_has_parity() -> None:
    figures = figures_of("LlamaForCausalLM")["first label ignored"]
    assert figures.ok
    assert figures.held is Held.REFERENCE
    assert figures.error <= 1e-6
    assert figures.logged_ok


@MODERN
def test_question_answering_is_right_for_even_batches_only() -> None:
    figures = figures_of("BertForQuestionAnswering")
    assert figures["even"].verdict is Verdict.PARITY
    assert figures["ragged"].verdict is Verdict.MEAN_OF_MEANS


@MODERN
def test_a_count_of_unshifted_labels_is_a_scale() -> None:
    # 60 labels, of which the 8 first ones have no prediction
    figures = figures_of("GPT2LMHeadModel")
    assert figures["first label ignored"].ok
    assert figures["first label scored"].verdict is Verdict.SCALED
    assert figures["first label scored"].ratio == pytest.approx(52 / 60, abs=1e-5)


@MODERN
def test_one_class_may_honour_the_count_for_one_problem_only() -> None:
    figures = figures_of("ViTForImageClassification")
    assert figures["single label, ragged"].ok
    assert figures["multi label, even"].verdict is Verdict.SUM_OF_MEANS


def test_batch_statistics_are_held_to_weighted_microbatches() -> None:
    assert {f.held for f in figures_of("ResNetForImageClassification").values()} == {Held.WEIGHTED}
