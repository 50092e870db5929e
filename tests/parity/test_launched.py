"""`verify` under torchrun: one of the ranks speaks, and its figures are those of all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import transformers
from packaging.version import Version

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(Version("5.9") > Version(transformers.__version__), reason="describes releases from 5.9 on")
def test_two_launched_ranks(tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = ["--head", "^BertForNextSentencePrediction$", "--steps", "1", "--output-format", "json"]
    run = subprocess.run(
        [*launcher, "-m", "gafixer", "verify", "--device", "cpu", *options],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,  # transformers is imported anew, twice, which a busy machine takes minutes for
        check=False,
    )
    assert run.returncode == 0, run.stderr
    facts = json.loads(run.stdout)  # one document: the other rank said nothing
    assert facts["setting"]["processes"] == 2
    (head,) = facts["heads"]
    even, ragged = head["variants"]
    assert even["before"]["ratio"] == pytest.approx(2.0, abs=1e-4)  # two ranks, and nobody divides
    assert even["after"]["verdict"] == ragged["after"]["verdict"] == "parity"
    assert facts["divides"]
    for divides in facts["divides"]:  # with one process, and four microbatches where nobody divides
        assert any(divides["ratio"] == pytest.approx(right) for right in (1.0, 4.0)), divides
