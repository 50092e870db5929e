"""Under torch.compile: one-term heads meet the reference, heads with several terms say that they stand down."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

from gafixer.parity.drive import drive_trainer
from gafixer.parity.figures import relative_error
from tests.patch import tiny

pytestmark = [
    pytest.mark.usefixtures("patched"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.torch.jit.:DeprecationWarning"),  # inductor's own use
]

COMPILED: dict[str, Any] = {"torch_compile": True, "torch_compile_backend": "inductor"}


@pytest.mark.parametrize("head", ["drops the count", "honours it"])
def test_a_head_of_one_term(head: str) -> None:
    model = tiny.llama() if head == "honours it" else tiny.bert(tiny.BertForTokenClassification)
    batch = tiny.tokens(classes=3)
    right, loss = tiny.reference(model, batch)
    driven = drive_trainer(model, tiny.window(batch, (2, 2, 2, 2)), **COMPILED)
    assert relative_error(driven.vector, right) < 3e-6
    assert driven.logged == pytest.approx(loss, abs=1e-4)


def test_a_head_of_several_terms_says_so(caplog: pytest.LogCaptureFixture) -> None:
    batch = {**tiny.tokens(), "next_sentence_label": torch.arange(8) % 2}
    with caplog.at_level(logging.WARNING, logger="gafixer.patch"):
        drive_trainer(tiny.bert(tiny.BertForPreTraining), tiny.window(batch, (2, 2, 2, 2)), **COMPILED)
    said = [r.getMessage() for r in caplog.records if "a compiled head with several terms" in r.getMessage()]
    assert len(said) == 1
