"""The script for a machine with a GPU, as far as one without can tell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gafixer.parity.heads import Head
from tests.gpu.measure import spread

SCRIPT = Path(__file__).with_name("run.sh")
HEADS = [Head(f"{letter}{kind}", "here", ("labels",)) for kind in ("ForCausalLM", "ForMaskedLM") for letter in "ABCDEF"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU would be used")
def test_says_that_it_is_skipped_and_fails(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise ImportError('not on a bare machine')")
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(tmp_path), "OUT": str(tmp_path / "out")}
    run = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 2
    assert run.stderr.startswith("SKIPPED: torch sees no GPU here")
    assert not (tmp_path / "out").exists()


def test_the_heads_are_spread_over_the_tasks_and_always_the_same() -> None:
    chosen = spread(HEADS, 5)
    assert [head.task.value for head in chosen].count("causal-lm") == 3
    assert len(set(chosen)) == 5
    assert spread(HEADS, 5) == chosen
    assert sorted(spread(HEADS, 100)) == sorted(HEADS)
