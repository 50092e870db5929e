"""Whole runs of the real `Trainer` in this process, one head after the other: every split of a window ends alike.

    python -m tests.whole_runs.runs --folder DIR [--updates 30] [--no-patch] HEAD ...

Alone it trains each head in every split and leaves the weights of the first, a batch without accumulation, in --folder;
under torchrun it trains the same windows on all ranks and compares with those. Prints a JSON line per head and split.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import Trainer, TrainingArguments

import gafixer.patch
from gafixer.parity.batches import variants, window_for
from gafixer.parity.heads import Head
from gafixer.parity.models import builds
from gafixer.parity.windows import copy_of, join, split

RTOL, ATOL = 1e-4, 1e-5
ROWS = 32
"""Samples of a window."""

HEADS = (
    "LlamaForCausalLM",
    "BertForMaskedLM",
    "T5ForConditionalGeneration",
    "BertForTokenClassification",
    "BertForSequenceClassification",
    "BertForQuestionAnswering",
    "BertForMultipleChoice",
    "BertForNextSentencePrediction",
    "BertForPreTraining",
    "GPT2DoubleHeadsModel",
    "ViTForImageClassification",
    "VideoMAEForVideoClassification",
    "ASTForAudioClassification",
    "Wav2Vec2ForAudioFrameClassification",
    "Wav2Vec2ForCTC",
    "SegformerForSemanticSegmentation",
)
"""One for each task."""


@dataclass(frozen=True, slots=True)
class Split:
    """How a window is cut: samples of a microbatch, microbatches of a rank."""

    batch: int
    steps: int

    def __str__(self) -> str:
        return f"{self.batch}x{self.steps}"


SPLITS = (Split(32, 1), Split(16, 2), Split(8, 4), Split(4, 8))
SHARED = (Split(16, 1), Split(4, 4))
"""Of two ranks."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How one run ended beside the run without accumulation.

    `excess` is the largest difference of a weight over what is allowed, `loss` the largest difference of a logged loss.
    """

    head: str
    ranks: int
    split: str
    excess: float
    loss: float


class InOrder(Trainer):
    """Without shuffling."""

    def _get_train_sampler(self, *_: Any) -> Any:
        rows: Any = self.train_dataset
        return torch.utils.data.SequentialSampler(rows)


def head_of(name: str) -> Head:
    """The head of that name, found without reading every modeling file of the release."""
    return Head(name, getattr(transformers, name).__module__, ())


def tiny(head: Head) -> Any:
    """A model that draws no random numbers, its batch statistics frozen: those are no matter of scale."""
    model = next(builds(head)).model
    if hasattr(model.config, "apply_spec_augment"):
        model.config.apply_spec_augment = False
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.register_forward_pre_hook(_freeze)
    return model


def _freeze(module: nn.Module, _: Any) -> None:
    module.eval()


def samples(head: Head, model: Any, count: int) -> list[dict[str, Any]]:
    """Rows of very uneven items, shuffled, so that microbatches have uneven items, too."""
    rows = join(window_for(model, head.task, variants(head.task)[0], microbatches=count // 2).microbatches)
    singles = split(rows, (1,) * count).microbatches
    order = torch.randperm(count, generator=torch.Generator().manual_seed(5)).tolist()
    return [dict(singles[place]) for place in order]


def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """One microbatch."""
    return copy_of(join(tuple(rows)))


def trained(head: Head, cut: Split, updates: int) -> tuple[torch.Tensor, list[float]]:
    """The final weights, flat, and the loss that was logged for every update."""
    model = tiny(head)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as sink, contextlib.redirect_stdout(sink):
        settings = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=cut.batch,
            gradient_accumulation_steps=cut.steps,
            max_steps=updates,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
            ddp_find_unused_parameters=True,
        )
        trainer = InOrder(
            model=model,
            args=settings,
            train_dataset=samples(head, model, ROWS * updates),
            data_collator=collate,
            optimizers=(optimizer, scheduler),
        )
        trainer.train()
    weights = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    return weights, [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def ended(name: str, folder: Path, updates: int, ranks: int) -> list[Ended]:
    """Every split of a head. One rank alone leaves what its first split ends with in `folder`."""
    kept = folder / f"{name}.pt"
    found = []
    for cut in SPLITS if ranks == 1 else SHARED:
        weights, losses = trained(head_of(name), cut, updates)
        if ranks == 1 and cut is SPLITS[0]:
            torch.save((weights, losses), kept)
        right, logged = torch.load(kept)
        excess = ((weights - right).abs() / (ATOL + RTOL * right.abs())).max()
        apart = max(abs(ours - theirs) for ours, theirs in zip(losses, logged, strict=True))
        found.append(Ended(name, ranks, str(cut), float(excess), apart))
    return found


def main() -> None:
    """All heads; what stops one is its line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heads", nargs="*", default=list(HEADS), metavar="HEAD")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--no-patch", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    for name in options.heads:
        lines: list[dict[str, Any]]
        try:
            with gafixer.patch.patched(not options.no_patch):
                lines = [asdict(run) for run in ended(name, options.folder, options.updates, ranks)]
        except Exception as error:  # the other heads still run
            lines = [{"head": name, "ranks": ranks, "error": f"{type(error).__name__}: {error}"[:300]}]
        first = os.environ.get("RANK", "0") == "0"
        for line in lines:
            print(json.dumps(line), flush=True, file=sys.stdout if first else sys.stderr)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
