"""A loop with a GradScaler that overflows: skipped windows leave nothing behind, the others meet the reference."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812 - as everybody imports it
from torch import Tensor, nn  # noqa: E402 - the same
from torch.optim.optimizer import register_optimizer_step_pre_hook  # noqa: E402 - the same

from tests.codemod.fixer import fix  # noqa: E402 - the loop below is run with torch
from tests.codemod.loops import HEAD, TAGS, WORDS, batches  # noqa: E402 - the same

LOOP = """
def train(model, loader, optimizer, steps, scaler):
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x).flatten(0, 1)
            loss = F.cross_entropy(logits, y.flatten(), ignore_index=-100) / steps
        scaler.scale(loss).backward()
        if (i + 1) % steps == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1e9)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
STEPS = 4
#: The rounding of fp16, and what uneven windows cost.
ROUNDING, FAULT = 5e-3, 5e-2
#: Scaled by this, fp16 gradients of either loop overflow for some windows; they come to fit after as many halvings.
HUGE = 2.0**24


class _Watch:
    """Compares what the optimizer is given with the window's own gradient, at the weights of that moment."""

    def __init__(self, model: nn.Module, loader: list[tuple[Tensor, Tensor]]) -> None:
        self.model, self.loader, self.position = model, loader, 0
        self.errors: list[float] = []

    def __iter__(self) -> Any:
        for position, batch in enumerate(self.loader, 1):
            self.position = position
            yield batch

    def hook(self, *_: object) -> None:
        parameters = list(self.model.parameters())
        window = self.loader[self.position - STEPS : self.position]
        with torch.autocast("cpu", dtype=torch.float16):
            losses = [F.cross_entropy(self.model(x).flatten(0, 1), y.flatten(), reduction="sum") for x, y in window]
        items = sum(int(y.ne(-100).sum()) for _, y in window)
        wanted = torch.cat([g.flatten() for g in torch.autograd.grad(torch.stack(losses).sum() / items, parameters)])
        got = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        self.errors.append(float((got - wanted).norm() / wanted.norm()))


def _run(source: str) -> tuple[list[float], int]:
    """The relative error of each step, and how many windows were skipped."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(WORDS, 6), nn.Tanh(), nn.Linear(6, TAGS))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=HUGE)
    watch = _Watch(model, batches(8) * 8)
    scope: dict[str, Any] = {}
    exec(compile(source, "loop", "exec"), scope)
    hook = register_optimizer_step_pre_hook(watch.hook)
    try:
        scope["train"](model, watch, optimizer, STEPS, scaler)
    finally:
        hook.remove()
    return watch.errors, len(watch.loader) // STEPS - len(watch.errors)


def test_overflow_is_skipped_and_forgotten() -> None:
    before, skipped_before = _run(HEAD + LOOP)
    after, skipped = _run(fix(HEAD + LOOP))
    assert skipped >= 2
    assert skipped_before >= 2
    assert len(after) >= 4
    assert max(after) < ROUNDING
    assert max(before) > FAULT
