"""A `compute_loss` that makes its own mean, where it is known that the mean is divided by the steps."""

from __future__ import annotations

import pytest

from tests.analysis.scanning import expected, loud, scan

_TRAINER = """
import torch.nn.functional as F
from transformers import Trainer

class Masked(Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs{GIVEN})
        {FLAG}

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(inputs["ids"])
        each = F.cross_entropy(outputs.logits.transpose(1, 2), inputs["target"], reduction="none")
        mask = inputs["completion_mask"]
        {BODY}
"""
_TOLD = "self.model_accepts_loss_kwargs = False"
_MASKED = "loss = (each * mask).sum() / mask.sum()"
_OWN = f"{_MASKED}\n        loss = loss / self.current_gradient_accumulation_steps"


def _source(body: str, flag: str = _TOLD, given: str = "") -> str:
    return _TRAINER.replace("{BODY}", body).replace("{FLAG}", flag).replace("{GIVEN}", given)


@pytest.mark.parametrize(
    ("body", "flag", "given"),
    [
        (f"{_MASKED}\n        return loss  # GA101 error", _TOLD, ""),
        (f"{_MASKED}\n        return (loss, outputs) if return_outputs else loss  # GA101 error", _TOLD, ""),
        (f"{_OWN}  # GA101 error\n        return loss", _TOLD, ', compute_loss_func="unused"'),
        (f"{_OWN}  # GA103 error\n        return loss", _TOLD, ""),
    ],
    ids=["trainer", "tuple", "own", "both"],
)
def test_is_found(body: str, flag: str, given: str) -> None:
    source = _source(body, flag, given)
    assert expected(source)
    assert expected(source) == loud(scan(source))


@pytest.mark.parametrize(
    ("body", "flag", "given"),
    [
        ("return ((each * mask).sum(-1) / mask.sum(-1)).mean()", _TOLD, ""),
        ("return (each * mask).sum() / num_items_in_batch", "self.model_accepts_loss_kwargs = True", ""),
        (f"{_MASKED}\n        return loss", _TOLD, ', compute_loss_func="unused"'),
    ],
    ids=["samples", "count", "nobody divides"],
)
def test_is_not_taken_for_one(body: str, flag: str, given: str) -> None:
    assert not {code for _, code, _ in loud(scan(_source(body, flag, given)))} & {"GA101", "GA103", "GA105"}
