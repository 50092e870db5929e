"""What `test_ranks` starts on every rank for FSDP: `torchrun sharded_worker.py ANSWER.json`.

Accelerate wraps in FSDP on accelerators only, so the model is sharded here, by torch's own calls, and the Trainer takes
it as it is. What is proven is that the gradients which FSDP averages over ranks, and reduces in every microbatch, are
the reference's.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor

import gafixer.patch
from gafixer.parity.figures import relative_error
from tests.patch import tiny
from tests.patch.rank_worker import InOrder, one_update, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 4


class AsItIs(InOrder):
    """Trains the model that it was given, without DDP around it."""

    def _wrap_model(self, model: Any, *_: Any, **__: Any) -> Any:
        self.accelerator.prepare_model = lambda model, **_: model
        return model


def sharded(model: Any, kind: str) -> Any:
    """The model, its parameters spread over all ranks."""
    if kind == "FSDP1":
        return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
    for layer in (m for m in model.modules() if type(m).__name__.endswith("Layer")):
        fully_shard(layer)
    return fully_shard(model)


class Keep(torch.optim.SGD):
    """Keeps the whole gradients of its first step, and changes nothing."""

    def __init__(self, model: Any, names: list[str]) -> None:
        super().__init__(list(model.parameters()), lr=0.0)
        self.model, self.names = model, names
        self.caught: torch.Tensor | None = None

    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # a closure is never given here
        """Gather them."""
        grads = dict(whole_gradients(self.model))
        self.caught = torch.cat([grads[name].flatten() for name in self.names])


def whole_gradients(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The gradients of all parameters by the names that they have in the unwrapped model."""
    if isinstance(model, FullyShardedDataParallel):
        with FullyShardedDataParallel.summon_full_params(model, with_grads=True):
            for name, parameter in model.named_parameters():
                assert parameter.grad is not None
                yield name.replace("_fsdp_wrapped_module.", ""), parameter.grad.clone()
        return
    for name, parameter in model.named_parameters():
        grad = parameter.grad
        yield name, grad.full_tensor() if isinstance(grad, DTensor) else grad


def error(build: Any, batch: dict[str, torch.Tensor], kind: str) -> float:
    """How far one step's gradient is from the whole batch's."""
    model = build()
    names = [name for name, _ in model.named_parameters()]
    right, _ = tiny.reference(model, batch)
    with tempfile.TemporaryDirectory() as folder:
        settings = one_update(folder, STEPS, remove_unused_columns=False)
        assert settings.device.type == "cpu"  # reading it makes the process group
        model = sharded(model, kind)
        optimizer = Keep(model, names)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
        AsItIs(model=model, args=settings, train_dataset=rows(batch), optimizers=(optimizer, scheduler)).train()
    assert optimizer.caught is not None
    return relative_error(optimizer.caught, right)


def main(answer: Path) -> None:
    """Both kinds of FSDP, for a head that drops the count and one that honours it."""
    gafixer.patch.apply()
    cases: dict[str, Any] = {
        "dropped": (lambda: tiny.bert(tiny.BertForTokenClassification), tiny.tokens(classes=3)),
        "honoured": (tiny.llama, tiny.tokens()),
    }
    figures = {
        f"{name}, {kind}": error(build, batch, kind)
        for name, (build, batch) in cases.items()
        for kind in ("FSDP1", "FSDP2")
    }
    if int(os.environ["RANK"]) == 0:
        answer.write_text(json.dumps(figures))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
