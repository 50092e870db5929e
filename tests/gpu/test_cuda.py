"""Parity on a GPU: `pytest -m gpu`. Without CUDA every test here is skipped, and says so."""

from __future__ import annotations

import pytest
import torch

from gafixer.parity.figures import Verdict
from gafixer.parity.heads import find_head
from gafixer.parity.measure import Setting, measure_head

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")]

DTYPES = (torch.float32, torch.bfloat16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "GPT2LMHeadModel", "ViTForImageClassification"])
def test_a_head_that_honours_the_count_has_parity(name: str, dtype: torch.dtype) -> None:
    first, *_ = measure_head(find_head(name), Setting(dtype, "cuda"))
    assert first.ok, first


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["BertForSequenceClassification", "BertForMaskedLM", "T5ForConditionalGeneration"])
def test_a_head_that_drops_the_count_adds_means_up(name: str, dtype: torch.dtype) -> None:
    first, *_ = measure_head(find_head(name), Setting(dtype, "cuda"))
    assert first.figures is not None, first.reason
    assert first.figures.verdict is Verdict.SUM_OF_MEANS
