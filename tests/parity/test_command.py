"""`gafixer verify`: its options, and one run as a user makes it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import transformers
from click.testing import CliRunner
from packaging.version import Version

from gafixer.parity.command import verify
from tests.command import REAL

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(Version("5.9") > Version(transformers.__version__), reason="describes releases from 5.9 on")
def test_names_what_misses_and_what_cannot_be_built(tmp_path: Path) -> None:
    pattern = "^(LlamaForCausalLM|BertForNextSentencePrediction|RagTokenForGeneration)$"
    run = subprocess.run(
        [*REAL, "verify", "--no-patch", "--head", pattern],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,  # transformers is imported anew, which a busy machine takes minutes for
        check=False,
    )
    assert run.returncode == 1, run.stderr
    lines = run.stdout.splitlines()
    llama = [line for line in lines if line.startswith("LlamaForCausalLM")]
    assert len(llama) == 2
    assert all(line.endswith("ok") for line in llama)
    assert any(line.startswith("RagTokenForGeneration") and "not built: " in line for line in lines)
    assert "1 head misses the bound:" in lines
    assert any(line.startswith("  BertForNextSentencePrediction: microbatch means are added up") for line in lines)
    assert any("a forward that drops its **kwargs" in line for line in lines)
    assert run.stderr.strip() == "gafixer: 3 heads, 2 built"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--head", "("), "not a regular expression"),
        (("--head", "^NoSuchClass$"), "no head of the installed transformers matches"),
        (("--task", "knitting"), "knitting"),
        (("--processes", "0"), "--processes"),
    ],
)
def test_what_cannot_be_asked_for(arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = CliRunner().invoke(verify, list(arguments))
    assert result.exit_code == 2
    assert said in result.output


def test_a_gpu_that_is_not_there_is_not_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result = CliRunner().invoke(verify, ["--device", "cuda", "--head", "^LlamaForCausalLM$"])
    assert result.exit_code == 2
    assert "torch sees no GPU here" in result.output


def test_help_needs_no_torch() -> None:
    code = "import sys, gafixer.parity.command; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
