"""What `test_ranks` starts on every rank for DeepSpeed: `torchrun deepspeed_worker.py ANSWER.json`.

The engine steps by itself and keeps the gradients to itself, so they are read from what a step without momentum does
to the weights.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

import gafixer.patch
from gafixer.parity.figures import relative_error
from tests.patch import tiny
from tests.patch.rank_worker import InOrder, one_update, rows


class Plain(InOrder):
    """Subtracts the gradient: with DeepSpeed the Trainer makes its optimizer itself, whatever it was given."""

    def create_optimizer(self, *_: Any, **__: Any) -> Any:
        model: Any = self.model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        return self.optimizer


def weights(model: Any) -> torch.Tensor:
    """All parameters as one vector, in double precision."""
    return torch.cat([p.detach().flatten().double() for p in model.parameters()])


def error(model: Any, batch: dict[str, torch.Tensor], steps: int, stage: int) -> float:
    """How far one step's gradient is from the whole batch's."""
    right, _ = tiny.reference(model, batch)
    before = weights(model)
    with tempfile.TemporaryDirectory() as folder:
        settings = one_update(
            folder,
            steps,
            ddp_backend="gloo",
            learning_rate=1.0,
            lr_scheduler_type="constant",
            deepspeed={
                "train_micro_batch_size_per_gpu": "auto",
                "gradient_accumulation_steps": "auto",
                "zero_optimization": {"stage": stage},
                "zero_allow_untested_optimizer": True,
            },
        )
        Plain(model=model, args=settings, train_dataset=rows(batch)).train()
    return relative_error(before - weights(model), right)


def main(answer: Path) -> None:
    """A head that drops the count and one that honours it, with one and with four microbatches per rank."""
    gafixer.patch.apply()
    cases: dict[str, Any] = {
        "dropped": (lambda: tiny.bert(tiny.BertForTokenClassification), tiny.tokens(classes=3)),
        "honoured": (tiny.llama, tiny.tokens()),
    }
    figures = {
        f"{name}, {steps} steps, stage {stage}": error(build(), batch, steps, stage)
        for name, (build, batch) in cases.items()
        for steps in (1, 4)
        for stage in (0, 2)
    }
    if int(os.environ["RANK"]) == 0:
        answer.write_text(json.dumps(figures))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
