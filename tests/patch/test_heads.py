"""Heads through the real Trainer, on whatever release is installed: gradient and logged loss of the whole window."""

from __future__ import annotations

import pytest

from gafixer.parity.heads import find_head
from gafixer.parity.measure import measure_head

pytestmark = pytest.mark.usefixtures("patched")

HEADS = (
    "BartForConditionalGeneration",
    "BertForMaskedLM",
    "BertForMultipleChoice",
    "BertForNextSentencePrediction",
    "BertForPreTraining",
    "BertForQuestionAnswering",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "DeformableDetrForObjectDetection",
    "DetrForObjectDetection",
    "FunnelForPreTraining",
    "GPT2DoubleHeadsModel",
    "GPT2LMHeadModel",
    "LlamaForCausalLM",
    "LlamaForSequenceClassification",
    "LongformerForQuestionAnswering",
    "ProphetNetForConditionalGeneration",
    "T5ForConditionalGeneration",
    "ViTForImageClassification",
    "YolosForObjectDetection",
)
"""One or more per task, and those whose targets are hardest to recognise."""


@pytest.mark.parametrize("name", HEADS)
def test_every_variant_meets_the_reference(name: str) -> None:
    outcomes = list(measure_head(find_head(name), patched=True))
    for outcome in outcomes:
        assert outcome.figures is not None, (outcome.variant, outcome.reason)
        assert outcome.figures.ok, (outcome.variant, outcome.figures)
        assert outcome.figures.logged_ok, (outcome.variant, outcome.figures)
