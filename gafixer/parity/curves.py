"""Training-loss curves of one global batch, split in several ways: equal where accumulation is right.

Every run starts from the same weights and trains on the same 32 samples at every step through the real `Trainer`; only
the split differs. What is drawn is the loss over all of them before each step, not what the run reports.
"""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gafixer.parity.drive import only_item, silence, training_arguments
from gafixer.parity.inputs import IGNORED
from gafixer.parity.measure import patch as patching
from gafixer.parity.models import LABELS, builds
from gafixer.parity.ranks import on_ranks
from gafixer.parity.reference import loss_of
from gafixer.parity.sizes import LENGTH
from gafixer.parity.tasks import Task
from gafixer.parity.windows import copy_of, split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.parity.heads import Head
    from gafixer.parity.windows import Microbatch

__all__ = ["BATCH", "SPLITS", "STEPS", "TRAINED", "Curve", "Split", "curves"]

TRAINED = "DistilBertForTokenClassification"  # in every release, small, smooth under plain SGD, wrong in each
BATCH = 32  # samples of the global batch
STEPS = 40
_RATE = 0.02
_WORDS = (10, 80)  # ids drawn as text
_LONG = 0.25  # share of long rows


@dataclass(frozen=True, slots=True)
class Split:
    """`samples` per microbatch, `steps` microbatches per rank, `processes` ranks."""

    samples: int
    steps: int
    processes: int = 1

    @property
    def name(self) -> str:
        """As people write it: 8 × 4, and × 2 processes."""
        return f"{self.samples} × {self.steps}" + (f" × {self.processes} processes" if self.processes > 1 else "")


SPLITS = (Split(32, 1), Split(16, 2), Split(8, 4), Split(4, 8), Split(4, 4, 2))


@dataclass(frozen=True, slots=True)
class Curve:
    """The loss over the global batch before each optimizer step."""

    split: Split
    patched: bool
    losses: tuple[float, ...]


def curves(
    head: Head, *, device: str = "cpu", patch: bool = True, steps: int = STEPS, ways: Sequence[Split] = SPLITS
) -> tuple[Curve, ...]:
    """Each split as the installed releases train it, then, with `patch`, each with the patch.

    On a GPU the splits over several processes are left out: forked workers cannot share one.
    """
    model = next(builds(head)).model
    batch = _batch(head)
    shown = [way for way in ways if way.processes == 1 or device == "cpu"]
    return tuple(
        Curve(way, patched, _losses(copy.deepcopy(model).to(device), batch, steps, way, patched))
        for patched in ((False, True) if patch else (False,))
        for way in shown
    )


def _batch(head: Head) -> Microbatch:
    """A batch that can be learnt: few long rows and many short ones, whose answers follow different rules.

    Rows weighed wrongly pull towards the short ones' rule, so that the curves part.
    """
    generator = torch.Generator().manual_seed(11)
    ids = torch.randint(*_WORDS, (BATCH, LENGTH), generator=generator)
    long = torch.rand(BATCH, generator=generator) < _LONG
    lengths = torch.where(long, LENGTH, torch.randint(1, 4, (BATCH,), generator=generator))
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    classes = torch.where(long[:, None], ids % LABELS, (ids + 1) % LABELS)
    labels = classes if head.task is Task.TOKEN_CLASSIFICATION else ids
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": labels.masked_fill(mask == 0, IGNORED)}


def _losses(model: Any, batch: Microbatch, steps: int, way: Split, patched: bool) -> tuple[float, ...]:
    def work() -> tuple[float, ...]:
        with patching(patched):
            return _trained(model, batch, steps, way)

    return work() if way.processes == 1 else tuple(on_ranks(way.processes, work)[0])


def _trained(model: Any, batch: Microbatch, steps: int, way: Split) -> tuple[float, ...]:
    from transformers import Trainer, TrainerCallback

    parts = split(batch, (way.samples,) * (BATCH // way.samples)).microbatches
    data = [dict(part) for _ in range(steps) for part in parts]
    device = next(model.parameters()).device
    losses: list[float] = []

    class InOrder(Trainer):
        def _get_train_sampler(self, *args: Any, **kwargs: Any) -> Any:
            return torch.utils.data.SequentialSampler(data)

    class Look(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            with torch.no_grad():
                losses.append(float(loss_of(model(**copy_of(batch, device)))))

    optimizer = torch.optim.SGD(model.parameters(), lr=_RATE)
    more: dict[str, Any] = {"max_steps": steps, "logging_steps": steps, "use_cpu": device.type == "cpu"}
    if way.processes > 1:
        more["ddp_backend"] = "gloo"
    with tempfile.TemporaryDirectory() as folder, silence():
        InOrder(
            model=model,
            args=training_arguments(folder, way.steps, **more),
            train_dataset=data,
            data_collator=only_item,
            optimizers=(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)),
            callbacks=[Look()],
        ).train()
    return tuple(losses)
