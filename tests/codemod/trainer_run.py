"""Runs modules that train with the installed `Trainer`, by one process or as one of several.

    python -m tests.codemod.trainer_run < jobs.json

Jobs are ``{"name", "source", "reference"}``; a module may say by `collated(batch)` what its collator makes of a batch.
Prints one JSON line (the first process does): for each job the relative errors of the gradients before each step
against the window of all processes in one batch, the losses that `evaluate` reports before training, or the error that
ended it. Needs no gafixer, so that it runs under any release.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody imports it
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.optim.optimizer import register_optimizer_step_pre_hook

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

STEPS = 4
VOCABULARY, TAGS = 50, 5


def _sentences(count: int, longest: int = 12) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    made = []
    for length in torch.randint(1, longest + 1, (count,), generator=generator).tolist():
        tokens = torch.randint(1, VOCABULARY, (length,), generator=generator)
        made.append({"input_ids": tokens, "labels": tokens % TAGS})
    return made


def _mean(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing)


def _sequences(logits: Tensor, labels: Tensor) -> Tensor:
    nll = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return (nll.sum(1) / labels.ne(-100).sum(1)).mean()


REFERENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": _mean,
    "smoothed": lambda logits, labels: _mean(logits, labels, 0.1),
    "mixed": lambda logits, labels: 0.7 * _mean(logits, labels) + 0.3 * _mean(logits, labels, 0.1),
    "sequences": _sequences,
    "weighted": lambda logits, labels: F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), weight=torch.arange(1, TAGS + 1, dtype=logits.dtype)
    ),
}


class _Watch:
    def __init__(
        self, model: nn.Module, reference: str, collated: Callable[[dict[str, Tensor]], dict[str, Tensor]]
    ) -> None:
        self.batches: list[dict[str, Tensor]] = []
        self.errors: list[float] = []
        self.training = False
        self._model, self._loss, self._done = model, REFERENCES[reference], 0
        self._collated = collated

    def collate(self, sentences: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        batch = {
            "input_ids": pad_sequence([s["input_ids"] for s in sentences], batch_first=True),
            "labels": pad_sequence([s["labels"] for s in sentences], batch_first=True, padding_value=-100),
        }
        if self.training:
            self.batches.append({key: value.clone() for key, value in batch.items()})
        return self._collated(batch)

    def __call__(self, *_: object) -> None:
        window = self.batches[self._done : self._done + STEPS]
        self._done += STEPS
        if torch.distributed.is_initialized():
            gathered: list[Any] = [None] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(gathered, window)
            window = [batch for part in gathered for batch in part]
        parameters = list(self._model.parameters())
        got = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        rows = [row for batch in window for row in batch["input_ids"]]
        labels = [row for batch in window for row in batch["labels"]]
        with torch.enable_grad():
            logits = self._model(input_ids=pad_sequence(rows, batch_first=True)).logits
            loss = self._loss(logits, pad_sequence(labels, batch_first=True, padding_value=-100))
        want = torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])
        self.errors.append(float((got - want).norm() / want.norm()))


def _run(job: dict[str, str], folder: str) -> dict[str, Any]:
    from transformers import TrainingArguments

    module = ModuleType(job["name"])
    sys.modules[job["name"]] = module  # where a model looks for its own class
    exec(compile(job["source"], job["name"], "exec"), module.__dict__)
    torch.manual_seed(0)
    model, trainer_class, own = module.build()
    model = model.double()
    watch = _Watch(model, job["reference"], getattr(module, "collated", dict))
    world = int(os.environ.get("WORLD_SIZE", "1"))
    arguments = TrainingArguments(
        folder,
        per_device_train_batch_size=2,
        per_device_eval_batch_size=2,
        gradient_accumulation_steps=STEPS,
        num_train_epochs=1,
        max_grad_norm=0.0,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        average_tokens_across_devices=world > 1,
    )
    data = _sentences(16 * world)
    trainer = trainer_class(model, arguments, data_collator=watch.collate, train_dataset=data, eval_dataset=data, **own)
    # One that has evaluated on several ranks trains without DDP.
    evaluated = trainer.evaluate()["eval_loss"] if world == 1 else None
    watch.training = True
    hook = register_optimizer_step_pre_hook(watch)
    try:
        trainer.train()
    finally:
        hook.remove()
    return {"errors": watch.errors, "evaluated": evaluated}


def main() -> None:
    """Run what standard input asks for."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    from transformers import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # transformers gives it none
    jobs = json.load(sys.stdin)
    told = {}
    for job in jobs:
        with tempfile.TemporaryDirectory() as folder:
            try:
                told[job["name"]] = _run(job, folder)
            except Exception as error:  # the job's own: it is told
                told[job["name"]] = {"error": f"{type(error).__name__}: {error}"}
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(told))


if __name__ == "__main__":
    main()
