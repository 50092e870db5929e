"""Training-loss curves of one global batch, split in several ways: equal where accumulation is right.

Every run starts from the same weights and sees the same batches in the same order through the real `Trainer`; only the
split differs. What is drawn is the loss over the whole global batch before each step, so that no run can look better
by the way it reports.
"""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gafixer.parity.drive import only_item, silence, training_arguments
from gafixer.parity.inputs import IGNORED
from gafixer.parity.measure import patch
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

__all__ = ["BATCH", "SPLITS", "Curve", "Split", "curves"]

BATCH = 32  # samples of a global batch
PATCHES = (False,)
_STEPS = 40
_RATE = 0.2
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
    head: Head, *, device: str = "cpu", steps: int = _STEPS, ways: Sequence[Split] = SPLITS
) -> tuple[Curve, ...]:
    """Each split as the installed releases train it, then each with the patch."""
    tiny = next(builds(head))
    batches = [_batch(head, torch.Generator().manual_seed(11))] * steps
    found = []
    for patched in PATCHES:
        for way in ways:
            model = copy.deepcopy(tiny.model).to(device)
            found.append(Curve(way, patched, _losses(model, batches, way, patched)))
    return tuple(found)


def _batch(head: Head, generator: torch.Generator) -> Microbatch:
    """A global batch that can be learnt: few long rows and many short ones, whose answers follow different rules.

    Rows weighed wrongly pull towards the short ones' rule, so that the curves part.
    """
    ids = torch.randint(*_WORDS, (BATCH, LENGTH), generator=generator)
    long = torch.rand(BATCH, generator=generator) < _LONG
    lengths = torch.where(long, LENGTH, torch.randint(1, 4, (BATCH,), generator=generator))
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    classes = torch.where(long[:, None], ids % LABELS, (ids + 1) % LABELS)
    labels = classes if head.task is Task.TOKEN_CLASSIFICATION else ids
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": labels.masked_fill(mask == 0, IGNORED)}


def _losses(model: Any, batches: Sequence[Microbatch], way: Split, patched: bool) -> tuple[float, ...]:
    def work() -> tuple[float, ...]:
        with patch(patched):
            return _trained(model, batches, way)

    return work() if way.processes == 1 else tuple(on_ranks(way.processes, work)[0])


def _trained(model: Any, batches: Sequence[Microbatch], way: Split) -> tuple[float, ...]:
    from transformers import Trainer, TrainerCallback

    sizes = (way.samples,) * (BATCH // way.samples)
    data = [dict(part) for batch in batches for part in split(batch, sizes).microbatches]
    losses: list[float] = []
    device = next(model.parameters()).device

    class InOrder(Trainer):  # type: ignore[misc]  # transformers ships no type information that mypy reads
        def _get_train_sampler(self, *args: Any, **kwargs: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    class Look(TrainerCallback):  # type: ignore[misc]  # the same
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            with torch.no_grad():
                losses.append(float(loss_of(model(**copy_of(batches[state.global_step], device)))))

    optimizer = torch.optim.SGD(model.parameters(), lr=_RATE)
    with tempfile.TemporaryDirectory() as folder, silence():
        more = {"max_steps": len(batches), "use_cpu": device.type == "cpu", "logging_steps": len(batches)}
        InOrder(
            model=model,
            args=training_arguments(folder, way.steps, **more, **({"ddp_backend": "gloo"} if way.processes > 1 else {})),
            train_dataset=data,
            data_collator=only_item,
            optimizers=(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)),
            callbacks=[Look()],
        ).train()
    return tuple(losses)
