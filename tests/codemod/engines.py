"""Loops over a DeepSpeed engine, and their run: by a stand-in for the engine, or by the real one where it is installed.

    python -m tests.codemod.engines [--real STAGE] [--epochs N] < sources.json

Sources are texts of modules that define ``train(engine, loader, epochs)``, by name. Prints the relative errors of the
gradients before each step, against the window of all ranks in one batch, one JSON line (the first rank does).

The stand-in does what the engine's source does as far as a loop can tell: it counts microbatches over
epochs, divides by the steps unless it is told not to, averages gradients over ranks, steps where a window ends.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - as everybody imports it
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

__all__ = ["LOOPS", "STEPS", "main"]

STEPS, WORDS = 4, 12

LOOPS = {
    "head": """
def train(engine, loader, epochs=1):
    for _ in range(epochs):
        for batch in loader:
            loss = engine(input_ids=batch["input_ids"], labels=batch["labels"]).loss
            engine.backward(loss)
            engine.step()
""",
    "divided_again": """
def train(engine, loader, epochs=1):
    for _ in range(epochs):
        for batch in loader:
            loss = engine(input_ids=batch["input_ids"], labels=batch["labels"]).loss
            engine.backward(loss / engine.gradient_accumulation_steps())
            engine.step()
""",
    "progress_bar": """
from tqdm import tqdm


def train(engine, train_dataloader, epochs=1):
    for epoch in range(epochs):
        for step, batch in tqdm(enumerate(train_dataloader), total=len(train_dataloader), disable=True):
            batch = {key: value.to("cpu") for key, value in batch.items()}
            outputs = engine(**batch)
            loss = outputs.loss
            engine.backward(loss)
            engine.step()
""",
    "own_criterion": """
import torch.nn.functional as F


def train(engine, loader, epochs=1):
    for _ in range(epochs):
        for step, batch in enumerate(loader):
            labels = batch["labels"][:, 1:]
            logits = engine(input_ids=batch["input_ids"]).logits[:, :-1]
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
            loss = loss / engine.gradient_accumulation_steps()
            engine.backward(loss)
            engine.step()
""",
}


class Head(nn.Module):
    """A causal language model with a default loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Embedding(WORDS, 6), nn.Tanh(), nn.Linear(6, WORDS))

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> SimpleNamespace:
        """The logits, and the loss where there are labels."""
        logits = self.net(input_ids)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return SimpleNamespace(loss=loss, logits=logits)


class Engine:
    """The stand-in."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.module, self.optimizer, self.micro_steps = model, optimizer, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def gradient_accumulation_steps(self) -> int:
        """The microbatches of a window."""
        return STEPS

    def backward(self, loss: Tensor, scale_wrt_gas: bool = True) -> None:
        """Add to the gradients."""
        (loss / STEPS if scale_wrt_gas else loss).backward()  # type: ignore[no-untyped-call] # torch's own

    def step(self) -> None:
        """Step where a window ends."""
        self.micro_steps += 1
        if self.micro_steps % STEPS:
            return
        if dist.is_initialized():
            for parameter in self.module.parameters():
                assert parameter.grad is not None
                dist.all_reduce(parameter.grad)
                parameter.grad.div_(dist.get_world_size())
        self.optimizer.step()
        self.optimizer.zero_grad()


def batches(number: int, rank: int) -> list[dict[str, Tensor]]:
    """Microbatches with very uneven numbers of labels."""
    generator = torch.Generator().manual_seed(rank)
    made = []
    for i in range(number):
        tokens = torch.randint(0, WORDS, (2, 9), generator=generator)
        labels = tokens.clone()
        labels[:, [8, 3, 5, 2][(i + rank) % 4] :] = -100
        made.append({"input_ids": tokens, "labels": labels})
    return made


def _watch(model: nn.Module, data: list[dict[str, Tensor]], errors: list[float]) -> Any:
    parameters = list(model.parameters())

    def hook(*_: object) -> None:
        start = len(errors) * STEPS
        window: list[Any] = [data[i % len(data)] for i in range(start, start + STEPS)]
        if dist.is_initialized():
            gathered: list[Any] = [None] * dist.get_world_size()
            dist.all_gather_object(gathered, window)
            window = [batch for part in gathered for batch in part]
        with torch.enable_grad():
            whole = Head.forward(
                model,  # type: ignore[arg-type] # a Head, or what DeepSpeed wraps
                torch.cat([b["input_ids"] for b in window]),
                torch.cat([b["labels"] for b in window]),
            ).loss
        wanted = torch.cat([g.flatten() for g in torch.autograd.grad(whole, parameters)])
        got = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        errors.append(float((got - wanted).norm() / wanted.norm()))

    return hook


def _engine(model: nn.Module, optimizer: torch.optim.Optimizer, stage: int | None) -> Any:
    if stage is None:
        return Engine(model, optimizer)
    import deepspeed  # type: ignore[import-not-found,unused-ignore] # an extra of who runs this by hand

    config = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": STEPS,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    }
    return deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]


def _run(source: str, number: int, epochs: int, stage: int | None) -> list[float]:
    torch.manual_seed(0)
    model = Head() if stage is not None else Head().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    rank = int(os.environ.get("RANK", "0"))
    data = batches(number, rank)
    errors: list[float] = []
    scope: dict[str, Any] = {}
    exec(compile(source, "loop", "exec"), scope)
    engine = _engine(model, optimizer, stage)
    hook = register_optimizer_step_pre_hook(_watch(model, data, errors))
    try:
        scope["train"](engine, data, epochs)
    finally:
        hook.remove()
    return errors


def main() -> None:
    """Run what standard input asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--real", type=int, metavar="STAGE")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.real is not None:
        import deepspeed  # type: ignore[import-not-found,unused-ignore] # the same

        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled, and isn't needed
        deepspeed.init_distributed("gloo")
    elif "RANK" in os.environ:
        dist.init_process_group("gloo")
    sources: dict[str, str] = json.load(sys.stdin)
    told = {name: _run(text, options.batches, options.epochs, options.real) for name, text in sources.items()}
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(told))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
