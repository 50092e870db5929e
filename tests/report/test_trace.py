"""`--trace`: how a loss was evaluated, in words, with the place of each step."""

from __future__ import annotations

import pytest

from gafixer import engine
from gafixer.analysis.project import MemoryProject
from tests.analysis.scanning import training

SOURCE = training("""\
    y[y == 0] = -100
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss = loss / n
    loss.backward()
""")


def _trace(source: str, row: int, **modules: str) -> list[str]:
    return engine.trace(source.encode(), "train.py", MemoryProject(modules), row).split("\n")


def _row(text: str) -> int:
    return next(row for row, line in enumerate(SOURCE.split("\n"), 1) if text in line)


def test_every_step_has_its_place() -> None:
    """Backward, window, loop, guard, the loss, its target, the division and the evidence."""
    loss, guard = _row("cross_entropy"), _row("% n == 0")
    assert _trace(SOURCE, _row("backward")) == [
        f"backward (PyTorch)  at train.py:{_row('backward')}:9",
        f"  window: the step is guarded by a count of microbatches  at train.py:{_row('optimizer.step')}:13",
        f"  microbatches: loader  at train.py:{_row('for i')}:5",
        "  steps: n; accumulates: yes",
        f"  guard  at train.py:{guard}:12; the loop's end steps: no",
        f"  term 1: mean of cross_entropy (loss call)  at train.py:{loss}:16",
        "    target: y",
        "    counts tokens, their number varies: certain",
        f"    divided by n: the number of microbatches of the window  at train.py:{_row('loss / n')}:16",
        f"    evidence: labels are set to -100 here, and are not scored  at train.py:{_row('= -100')}:9",
    ]


TWO = training("F.mse_loss(model(x), y).backward()\nF.l1_loss(model(x), y).backward()")


@pytest.mark.parametrize(("row", "name"), [(1, "mse_loss"), (8, "mse_loss"), (9, "l1_loss"), (99, "l1_loss")])
def test_the_nearest_backward_call(row: int, name: str) -> None:
    """Above or below the row that was asked for."""
    assert any(name in line for line in _trace(TWO, row))


def test_one_term_each() -> None:
    """Numbered, with their coefficients' divisions."""
    lines = _trace(training("loss = F.mse_loss(model(x), y) / n + F.l1_loss(model(x), y)\nloss.backward()"), 9)
    assert [line.split(" of ")[1].split(" (")[0] for line in lines if line.startswith("  term ")] == [
        "mse_loss",
        "l1_loss",
    ]
    assert sum("divided by n" in line for line in lines) == 1


def test_what_could_not_be_followed_is_named() -> None:
    """So that a reader sees where it became opaque."""
    lines = _trace(training("loss = who_knows(x, y)\n(loss / n).backward()"), 9)
    assert "  term 1: unknown of loss (unknown)  at train.py:8:16" in lines


def test_a_default_of_the_steps() -> None:
    """Its number, where one is written."""
    source = SOURCE.replace("optimizer, n)", "optimizer, n=4)")
    assert "  steps: n (default 4); accumulates: yes" in _trace(source, 10)


def test_a_framework_divides() -> None:
    """Said to be the framework's doing."""
    source = (
        "from accelerate import Accelerator\n"
        "def train(model, loader, optimizer):\n"
        "    accelerator = Accelerator(gradient_accumulation_steps=4)\n"
        "    for x, y in loader:\n"
        "        with accelerator.accumulate(model):\n"
        "            accelerator.backward(model(x, labels=y).loss)\n"
        "            optimizer.step()\n"
    )
    lines = _trace(source, 6)
    assert lines[0] == "backward (Accelerate)  at train.py:6:13"
    assert any("by the framework" in line and "divided by 4" in line for line in lines)


def test_places_in_other_modules() -> None:
    """Carry the other file's name."""
    source = "from losses import compute\n" + training("(compute(model(x), y) / n).backward()")
    module = "import torch.nn.functional as F\ndef compute(a, b):\n    return F.cross_entropy(a, b)\n"
    assert any(line.endswith("at losses.py:3:12") for line in _trace(source, 9, losses=module))


def test_nothing_goes_backward() -> None:
    """One line says so, with the place that was asked for."""
    assert _trace("x = 1\n", 1) == ["train.py:1: no loss goes backward in this file, as far as it could be followed"]
