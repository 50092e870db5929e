"""Overrides and heads are mended and trained with the installed `Trainer`: they meet the reference."""

from __future__ import annotations

import functools
from typing import Any

import pytest

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from gafixer.findings import Severity  # noqa: E402 - the same
from tests.codemod.overrides import OVERRIDES  # noqa: E402 - run by what may be missing
from tests.codemod.trainers import FAULT, PARITY, STEPS, mended, run  # noqa: E402 - the same

RELEASE = transformers.__version__

overrides = pytest.mark.parametrize("name", OVERRIDES)


@functools.cache
def _fixed() -> dict[str, str]:
    return {name: mended(override.source, RELEASE) for name, override in OVERRIDES.items()}


@functools.cache
def _before() -> dict[str, dict[str, Any]]:
    return run({name: override.source for name, override in OVERRIDES.items()})


@functools.cache
def _after(processes: int) -> dict[str, dict[str, Any]]:
    return run(_fixed(), processes)


@overrides
def test_misses_the_reference_before(name: str) -> None:
    told = _before()[name]
    if OVERRIDES[name].runs:
        assert max(told["errors"]) > FAULT
    else:
        assert "num_items_in_batch" in told["error"] or "positional argument" in told["error"]


@overrides
@pytest.mark.parametrize("processes", [1, 2])
def test_meets_the_reference(name: str, processes: int) -> None:
    told = _after(processes)[name]
    assert len(told.get("errors", ())) == STEPS, told
    assert max(told["errors"]) < PARITY


@overrides
def test_evaluation_is_unchanged(name: str) -> None:
    if "evaluated" not in _before()[name]:
        pytest.skip("it does not run before")
    assert _after(1)[name]["evaluated"] == pytest.approx(_before()[name]["evaluated"], rel=PARITY)


@overrides
def test_a_second_run_changes_nothing(name: str) -> None:
    assert mended(_fixed()[name], RELEASE) == _fixed()[name]


@overrides
@pytest.mark.parametrize("least", [Severity.WARNING, Severity.INFO])
def test_before_the_count_nothing_is_rewritten(name: str, least: Severity) -> None:
    """Before 4.46 `Trainer` hands over no count, and the old signature is the right one."""
    assert mended(OVERRIDES[name].source, "4.45.2", least=least) == OVERRIDES[name].source


@pytest.mark.parametrize("name", [name for name, override in OVERRIDES.items() if override.first == "4.47"])
def test_the_first_count_reaches_loss_kwargs_only(name: str) -> None:
    """`Trainer` of 4.46 looks for a parameter of that name, and hands other heads nothing to divide by."""
    source = OVERRIDES[name].source
    assert mended(source, "4.46.3") == source
    assert mended(source.replace("kwargs", "loss_kwargs"), "4.46.3") != source.replace("kwargs", "loss_kwargs")


_UNCOUNTED = {
    "what the model computes": ("nll.sum() / outputs.mask.sum()", ""),
    "a mean per sequence": ("(nll.sum(1) / inputs['mask'].sum(1)).mean()", ""),
    "a count of its own": (
        "(nll * inputs['mask']).sum() / inputs['mask'].sum()",
        "\n    def get_batch_samples(self, epoch_iterator, num_batches, device):\n"
        "        return super().get_batch_samples(epoch_iterator, num_batches, device)\n",
    ),
}


@pytest.mark.parametrize("name", _UNCOUNTED)
def test_what_no_batch_shows_is_left_to_trainer(name: str) -> None:
    loss, more = _UNCOUNTED[name]
    source = (
        "import torch.nn.functional as F\nfrom transformers import Trainer\n\n\nclass Tuned(Trainer):\n"
        "    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):\n"
        "        outputs = model(inputs['input_ids'])\n"
        "        nll = F.cross_entropy(outputs.logits.transpose(1, 2), inputs['labels'], reduction='none')\n"
        f"        return {loss}\n{more}"
    )
    made = mended(source, RELEASE)
    assert "loss_is_scaled_for_ga = False" in made or "model_accepts_loss_kwargs = False" in made
    assert made.count("get_batch_samples") == more.count("get_batch_samples")
