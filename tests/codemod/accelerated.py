"""Plain loops, and their run under Accelerate once they were turned into its own: by one process or as one of several.

    python -m tests.codemod.accelerated STEPS BATCHES < sources.json

Sources are texts of modules that define ``train(model, loader, optimizer, scheduler, steps)``, by name. Prints the
relative errors of the gradients before each step against the window of all processes in one batch, what the loop
reported, and how often the schedule advanced; one JSON line (the first process does).
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody imports it
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DataLoader

__all__ = ["LOOPS", "main"]

WORDS, TAGS, ROWS = 11, 5, 2

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

IGNORED = -100


"""
LOOPS = {
    "criterion": """
def train(model, loader, optimizer, scheduler, steps, device="cpu"):
    model.to(device)
    criterion = nn.CrossEntropyLoss(ignore_index=IGNORED)
    reported = []
    for epoch in range(1):
        model.train()
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            loss = criterion(model(x).flatten(0, 1), y.flatten())
            loss = loss / steps
            loss.backward()
            reported.append(loss.item() * steps)
            if (i + 1) % steps == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
    return reported
""",
    "in_place": """
def train(model, loader, optimizer, scheduler, steps):
    reported = []
    for step, batch in enumerate(loader, start=1):
        x, y = batch
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        reported.append(loss.item())
        loss /= steps
        loss.backward(retain_graph=False)
        if step % steps == 0 or step == len(loader):
            nn.utils.clip_grad_value_(model.parameters(), 1e9)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
    return reported
""",
    "masked_mean": """
def train(model, loader, optimizer, scheduler, steps):
    for i, (x, y) in enumerate(loader):
        mask = (y != -100).float()
        nll = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="none")
        loss = (nll * mask.flatten()).sum() / mask.sum().clamp(min=1)
        (loss / steps).backward()
        if (i + 1) % steps == 0 or i == len(loader) - 1:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
""",
    "flushed_after_the_loop": """
def train(model, loader, optimizer, scheduler, steps):
    last = 0
    for i, (x, y) in enumerate(loader):
        last = i + 1
        loss = F.cross_entropy(model(x).transpose(1, 2), y)
        (loss / steps).backward()
        if (i + 1) % steps == 0:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    if last % steps != 0:
        nn.utils.clip_grad_norm_(model.parameters(), 1e9)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
""",
    "in_the_call": """
def train(model, loader, optimizer, scheduler, steps):
    share = 1 / steps
    for i, (x, y) in enumerate(loader):
        (F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100) * share).backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
""",
    "no_accumulation": """
def train(model, loader, optimizer, scheduler, steps):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        loss.backward()
        optimizer.step()
        scheduler.step()
""",
}


def _sentences(count: int) -> list[tuple[Tensor, Tensor]]:
    """Sentences with very uneven numbers of tags; those of the fourth batch have none."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for position in range(count):
        words = torch.randint(WORDS, (int(torch.randint(1, 9, (), generator=generator)),), generator=generator)
        tags = torch.where(torch.rand(len(words), generator=generator) < 0.6, words % TAGS, -100)
        made.append((words, torch.full_like(tags, -100) if position // ROWS == 3 else tags))
    return made


class _Watch:
    def __init__(self, model: nn.Module, steps: int) -> None:
        self.batches: list[tuple[Tensor, Tensor]] = []
        self.errors: list[float] = []
        self._model, self._steps, self._done = model, steps, 0
        self.epoch = 0

    def collate(self, rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        words = pad_sequence([words for words, _ in rows], batch_first=True)
        tags = pad_sequence([tags for _, tags in rows], batch_first=True, padding_value=-100)
        self.batches.append((words, tags))
        return words, tags

    def __call__(self, *_: object) -> None:
        window = self.batches[self._done : min(self._done + self._steps, self.epoch)]
        self._done += len(window)
        if torch.distributed.is_initialized():
            gathered: list[Any] = [None] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(gathered, window)
            window = [batch for part in gathered for batch in part]
        parameters = list(self._model.parameters())
        got = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        total = torch.zeros((), dtype=torch.float64)
        with torch.enable_grad():
            for words, tags in window:
                total = total + F.cross_entropy(self._model(words).flatten(0, 1), tags.flatten(), reduction="sum")
        items = max(sum(int(tags.ne(-100).sum()) for _, tags in window), 1)
        want = torch.cat([g.flatten() for g in torch.autograd.grad(total / items, parameters)])
        self.errors.append(float((got - want).norm() / (want.norm() or 1.0)))


def _run(name: str, source: str, steps: int, batches: int) -> dict[str, Any]:
    from accelerate.state import AcceleratorState, GradientState  # type: ignore[import-untyped]  # accelerate ships no type information

    AcceleratorState._reset_state()
    GradientState._reset_state()
    world = int(os.environ.get("WORLD_SIZE", "1"))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(WORDS, 6), nn.Tanh(), nn.Linear(6, TAGS)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    watch = _Watch(model, 1 if name == "no_accumulation" else steps)
    watch.epoch = batches
    sentences: Any = _sentences(batches * world * ROWS)  # a list does for a DataLoader
    loader = DataLoader[Any](sentences, batch_size=ROWS, collate_fn=watch.collate)
    scope: dict[str, Any] = {}
    exec(compile(source, name, "exec"), scope)
    hook = register_optimizer_step_pre_hook(watch)
    try:
        reported = scope["train"](model, loader, optimizer, scheduler, steps)
    finally:
        hook.remove()
    return {"errors": watch.errors, "reported": reported or [], "schedule": scheduler.last_epoch}


def main() -> None:
    """Run what standard input asks for."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ["ACCELERATE_USE_CPU"] = "true"
    steps, batches = map(int, sys.argv[1:])
    told = {name: _run(name, source, steps, batches) for name, source in json.load(sys.stdin).items()}
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(told), flush=True)
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        sys.stdout.flush()
        os._exit(0)  # torch's DDP can end with Python's lock held, waiting for a gloo thread that wants it


if __name__ == "__main__":
    main()
