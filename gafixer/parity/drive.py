"""One optimizer step of the real `Trainer` over a window, its gradient caught where the optimizer would use it."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gafixer.parity.reference import flat
from gafixer.parity.windows import copy_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.parity.windows import Microbatch, Window

__all__ = ["Catch", "Driven", "drive_trainer", "only_item", "silence", "training_arguments"]


@dataclass(frozen=True, slots=True)
class Driven:
    """The gradient that reached the optimizer, flat, and the loss that the trainer logged for the step."""

    vector: torch.Tensor
    logged: float | None


class Catch(torch.optim.SGD):
    """An optimizer that keeps the gradients of its first step and changes nothing."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        super().__init__(parameters, lr=0.0)
        self.caught: torch.Tensor | None = None
        self._parameters = parameters

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # a closure is never given here
        """Keep the gradients."""
        if self.caught is None:
            self.caught = flat([p.grad for p in self._parameters], self._parameters)


def only_item(items: list[Microbatch]) -> dict[str, Any]:
    """A collator: the data set holds whole microbatches, so ragged ones need no sampler."""
    return copy_of(items[0])


def training_arguments(folder: str, steps: int, **more: Any) -> Any:
    """Arguments of a bare training step: no clipping, no saving, no reports."""
    from transformers import TrainingArguments

    settings: dict[str, Any] = {
        "output_dir": folder,
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": steps,
        "max_steps": 1,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "max_grad_norm": 0.0,
        "dataloader_pin_memory": False,
        "ddp_find_unused_parameters": True,
        **more,
    }
    return TrainingArguments(**settings)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """The trainer prints its log to standard output where progress bars are off."""
    with open("/dev/null", "w", encoding="utf-8") as sink, contextlib.redirect_stdout(sink):  # noqa: PTH123
        yield


def drive_trainer(
    model: Any,
    window: Window,
    *,
    steps: int | None = None,
    trainer_class: Any = None,
    loss_function: Any = None,
    **arguments: Any,
) -> Driven:
    """Train one step over the window with the installed `Trainer`.

    `steps` are the microbatches per rank, all of the window by default; `loss_function` is handed on as
    `compute_loss_func`; `arguments` go to `TrainingArguments`.
    """
    from transformers import Trainer

    device = next(model.parameters()).device
    optimizer = Catch([p for p in model.parameters() if p.requires_grad])
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    arguments.setdefault("use_cpu", device.type == "cpu")
    with tempfile.TemporaryDirectory() as folder, silence():
        trainer = (trainer_class or Trainer)(
            model=model,
            args=training_arguments(folder, steps or len(window.microbatches), **arguments),
            train_dataset=[dict(m) for m in window.microbatches],
            data_collator=only_item,
            optimizers=(optimizer, scheduler),
            **({} if loss_function is None else {"compute_loss_func": loss_function}),
        )
        trainer.train()
    model.zero_grad(set_to_none=True)
    logged = next((entry["loss"] for entry in trainer.state.log_history if "loss" in entry), None)
    if optimizer.caught is None:
        raise RuntimeError("the trainer made no optimizer step")
    return Driven(optimizer.caught, None if logged is None else float(logged))
