"""A strategy that is asked for is kept to: where it does not fit, the fix says so and nothing is rewritten."""

from __future__ import annotations

import dataclasses

import pytest

from gafixer import engine
from gafixer.analysis.project import MemoryProject
from gafixer.findings import Applicability, Fix
from gafixer.settings import Strategy
from tests.analysis.scanning import ALL, training

LOSS = "F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)"
PLAIN = training(f"({LOSS} / n).backward()")
ACCELERATED = f"""\
from accelerate import Accelerator
import torch.nn.functional as F

def train(model, loader, optimizer):
    accelerator = Accelerator(gradient_accumulation_steps=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward({LOSS})
            optimizer.step()
            optimizer.zero_grad()
"""
ENGINE = f"""\
import deepspeed
import torch.nn.functional as F

def train(model, loader, config):
    engine, _, _, _ = deepspeed.initialize(model=model, config={{"gradient_accumulation_steps": 4}})
    for x, y in loader:
        loss = {LOSS.replace("model", "engine")}
        engine.backward(loss)
        engine.step()
"""


def fix(source: str, strategy: Strategy) -> Fix:
    """The fix of the mean that is divided by the steps."""
    settings = dataclasses.replace(ALL, strategy=strategy)
    found = engine.check_source(source.encode(), "train.py", MemoryProject({}), settings).findings
    (made,) = [f.fix for f in found if f.code == "GA101"]
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("source", "strategy", "code"),
    [
        (PLAIN, Strategy.AUTO, "_divide_gradients(model.parameters()"),
        (PLAIN, Strategy.RESCALE, "_divide_gradients(model.parameters()"),
        (PLAIN, Strategy.READ_AHEAD, 'ignore_index=0, reduction="sum") / num_items'),
        (ENGINE, Strategy.AUTO, "engine.backward(loss / num_items, scale_wrt_gas=False)"),
        (ENGINE, Strategy.READ_AHEAD, "engine.backward(loss / num_items, scale_wrt_gas=False)"),
    ],
)
def test_what_fits(source: str, strategy: Strategy, code: str) -> None:
    assert any(code in edit.content for edit in fix(source, strategy).edits)


@pytest.mark.parametrize(
    ("source", "strategy", "fits"),
    [(ACCELERATED, Strategy.READ_AHEAD, "rescale"), (ENGINE, Strategy.RESCALE, "read-ahead")],
)
def test_what_does_not(source: str, strategy: Strategy, fits: str) -> None:
    """Prose, with the strategy that fits: inside `accumulate()` reading ahead would break the end of the loader."""
    made = fix(source, strategy)
    assert (made.applicability, made.edits) == (Applicability.DISPLAY, ())
    assert made.message == f'not rewritten: only strategy "{fits}" fits here, and "{strategy.value}" is asked for'
