"""The projects that show parity run as their readers would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def run(folder: str, *arguments: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=FIXTURES / folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# The weights are those of Accelerate's guide, which takes the whole global batch at once.
@pytest.mark.parametrize(
    ("arguments", "weights"),
    [
        (("train.py",), "0.0953 0.4337"),
        (("train_mean.py",), "0.0775 0.4514"),
        pytest.param(("train.py", "--batch-size", "8", "--steps", "1"), "0.0953 0.4337", marks=pytest.mark.slow),
        pytest.param((*TORCHRUN, "train.py", "--sequences", "16"), "0.2117 0.3172", marks=pytest.mark.slow),
        pytest.param((*TORCHRUN, "train_mean.py", "--sequences", "16"), "0.1622 0.3668", marks=pytest.mark.slow),
    ],
)
def test_the_guide_s_example_ends_where_the_guide_says(arguments: tuple[str, ...], weights: str) -> None:
    assert run("accelerate_guide", *arguments).split("\n")[-2] == weights


def test_pinned_steps_fail_faulty_and_pass_mended() -> None:
    assert "passed" in run(
        "pinned_step", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."
    )
