"""What `test_ranks` starts on every rank: `torchrun rank_worker.py ANSWER.json`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainingArguments

import gafixer.patch
from gafixer.parity.drive import Catch
from gafixer.parity.figures import relative_error
from tests.patch import losses, tiny

RANKS = 2


class InOrder(Trainer):
    """Without shuffling."""

    def _get_train_sampler(self, *_: Any) -> Any:
        rows: Any = self.train_dataset
        return torch.utils.data.SequentialSampler(rows)


class OwnMean(losses.Own, InOrder):
    """A mean of its own."""


class OnTop(losses.OnTop, InOrder):
    """A penalty on top of the Trainer's loss."""


def one_update(folder: str, steps: int, **more: Any) -> TrainingArguments:
    """One optimizer step over 8 rows on all ranks, with nothing beside it."""
    return TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=8 // RANKS // steps,
        gradient_accumulation_steps=steps,
        max_steps=1,
        max_grad_norm=0.0,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        **more,
    )


def rows(batch: dict[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    """The batch as a dataset of 8 rows."""
    return [{name: value[row] for name, value in batch.items()} for row in range(8)]


def step(model: Any, batch: dict[str, torch.Tensor], steps: int, trainer_class: Any, **more: Any) -> tuple[Any, float]:
    """One optimizer step over the batch on all ranks."""
    optimizer = Catch(list(model.parameters()))
    with tempfile.TemporaryDirectory() as folder:
        settings = one_update(folder, steps, logging_steps=1, ddp_find_unused_parameters=False, **more)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
        trainer = trainer_class(
            model=model, args=settings, train_dataset=rows(batch), optimizers=(optimizer, scheduler)
        )
        trainer.train()
    return optimizer.caught, next(entry["loss"] for entry in trainer.state.log_history if "loss" in entry)


def own_mean(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    labels = batch.pop("labels")
    return losses.mean(model(**batch), labels)


def on_top(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    loss: torch.Tensor = model(**batch).loss
    return loss + losses.penalty(model)


def local_means(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """The mean over ranks of each rank's own mean; with one row per microbatch ranks take every second row."""
    model = tiny.llama()
    parts = [tiny.reference(model, {n: v[rank::RANKS] for n, v in batch.items()})[0] for rank in range(RANKS)]
    return torch.stack(parts).mean(0)


def main(answer: Path) -> None:
    """Every case, with one and with four microbatches per rank."""
    gafixer.patch.apply()
    tokens, classes = tiny.tokens(), tiny.tokens(classes=3)
    cases = {
        "dropped": (tiny.bert(tiny.BertForTokenClassification), classes, InOrder, None),
        "honoured": (tiny.llama(), tokens, InOrder, None),
        "several terms": (
            tiny.bert(tiny.BertForPreTraining),
            {**tokens, "next_sentence_label": torch.arange(8) % 2},
            InOrder,
            None,
        ),
        "own mean": (tiny.llama(), tokens, OwnMean, own_mean),
        "own count on top": (tiny.llama(), tokens, OnTop, on_top),
        "answers": (
            tiny.bert(tiny.BertForQuestionAnswering, num_labels=2),
            tiny.batch_of(start_positions=torch.tensor([0, 1, 40, 2, 3, 4, 5, 6]), end_positions=torch.arange(8)),
            InOrder,
            None,
        ),
    }
    figures = {}
    for name, (model, batch, trainer_class, loss_of) in cases.items():
        right, loss = tiny.reference(model, batch, loss_of)
        for steps in (1, 4):
            caught, logged = step(model, batch, steps, trainer_class)
            figures[f"{name}, {steps} steps"] = {
                "gradient": relative_error(caught, right),
                "logged": abs(logged / loss - 1),
            }
    if TrainingArguments.__dataclass_fields__.get("average_tokens_across_devices", None) is not None and (
        TrainingArguments.__dataclass_fields__["average_tokens_across_devices"].default
    ):
        caught, _ = step(tiny.llama(), tokens, 4, InOrder, average_tokens_across_devices=False)
        figures["local, 4 steps"] = {"gradient": relative_error(caught, local_means(tokens))}
    if int(os.environ["RANK"]) == 0:
        answer.write_text(json.dumps(figures))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
