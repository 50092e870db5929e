"""Two processes: counts go over all ranks, and the rank factor is applied once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from gafixer.parity.drive import drive_trainer
from gafixer.patch.window import Window
from tests.patch import tiny

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def on_two_ranks(worker: str, answer: Path) -> Any:
    """What rank 0 of a worker leaves in `answer`."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*command, str(HERE / worker), str(answer)],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(answer.read_text())


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """Per case: relative error of the gradient and of the logged loss, as rank 0 sees them."""
    found: dict[str, dict[str, float]] = on_two_ranks("rank_worker.py", tmp_path_factory.mktemp("ranks") / "figures")
    return found


CASES = [
    f"{case}, {steps} steps"
    for case in ("dropped", "honoured", "several terms", "own mean", "own count on top", "answers")
    for steps in (1, 4)
]


@pytest.mark.parametrize("case", CASES)
def test_gradient_and_logged_loss_of_all_ranks(figures: dict[str, dict[str, float]], case: str) -> None:
    assert figures[case]["gradient"] < 3e-6
    assert figures[case]["logged"] < 1e-4


def test_a_user_who_keeps_tokens_on_their_rank_is_obeyed(figures: dict[str, dict[str, float]]) -> None:
    if "local, 4 steps" not in figures:
        pytest.skip("off is the default here, so nobody said it")
    assert figures["local, 4 steps"]["gradient"] < 3e-6


def test_fsdp_averages_the_right_gradient(tmp_path: Path) -> None:
    found = on_two_ranks("sharded_worker.py", tmp_path / "figures")
    assert set(found) == {f"{head}, FSDP{kind}" for head in ("dropped", "honoured") for kind in (1, 2)}
    assert max(found.values()) < 3e-6, found


def test_deepspeed_divides_and_steps_as_its_engine_likes(tmp_path: Path) -> None:
    pytest.importorskip("deepspeed")
    found = on_two_ranks("deepspeed_worker.py", tmp_path / "figures")
    assert set(found) == {
        f"{head}, {steps} steps, stage {stage}"
        for head in ("dropped", "honoured")
        for steps in (1, 4)
        for stage in (0, 2)
    }
    assert max(found.values()) < 3e-6, found


@pytest.mark.usefixtures("patched")
def test_a_rank_meets_the_others_once_per_window(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[Window] = []
    gather = Window.gather

    def counted(self: Window, *args: Any) -> Any:
        met.append(self)
        return gather(self, *args)

    monkeypatch.setattr(Window, "gather", counted)
    batch = {**tiny.tokens(), "next_sentence_label": torch.arange(8) % 2}
    microbatches = tiny.window(batch, (2, 2, 2, 2))
    drive_trainer(tiny.bert(tiny.BertForPreTraining), microbatches, steps=2, max_steps=2)  # known, and looked at again
    assert len(met) == len(set(met)) == 2
