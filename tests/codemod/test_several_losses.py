"""Several losses of a microbatch go backward, one by one: over the same items one count divides them all."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812 - it needs torch
from torch import nn  # noqa: E402 - the same
from torch.optim.optimizer import register_optimizer_step_pre_hook  # noqa: E402 - the same

from tests.codemod.fixer import findings, fix  # noqa: E402 - the loops import torch
from tests.codemod.loops import HEAD, TAGS, WORDS, batches  # noqa: E402 - the same

PARITY, FAULT = 1e-6, 1e-3

LOOPS = {
    "adversarial": """
def train(model, loader, optimizer, steps):
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    reported = []
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x).flatten(0, 1), y.flatten())
        if steps > 1:
            loss = loss / steps
        loss.backward()
        model.noise = 0.5
        loss_adv = criterion(model(x).flatten(0, 1), y.flatten())
        loss_adv.backward()
        model.noise = 0.0
        reported.append(loss.item())
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    return reported
""",
    "sometimes": """
def train(model, loader, optimizer, steps, twice=True):
    reported = []
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100) / steps
        loss.backward()
        if twice:
            model.noise = 0.5
            again = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100) / steps
            again.backward()
            model.noise = 0.0
        reported.append(loss.item())
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    return reported
""",
}
loops = pytest.mark.parametrize("name", LOOPS)


class Noisy(nn.Module):
    """A tagger whose embeddings are moved by `noise`."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(WORDS, 6), nn.Linear(6, TAGS)
        self.noise = 0.0

    def forward(self, x: Any) -> Any:
        """The logits."""
        return self.head((self.embedding(x) + self.noise).tanh())


def _run(source: str, steps: int) -> tuple[list[float], list[float]]:
    """The relative error of each step's gradient, and what the loop reported."""
    torch.manual_seed(0)
    model = Noisy().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    loader = batches(10)
    windows = [loader[start : start + steps] for start in range(0, len(loader), steps)]
    errors: list[float] = []

    def watch(*_: object) -> None:
        window = windows[len(errors)]
        total = torch.zeros((), dtype=torch.float64)
        for noise in (0.0, 0.5):
            model.noise = noise
            for x, y in window:
                total = total + F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
        model.noise = 0.0
        items = max(sum(int(y.ne(-100).sum()) for _, y in window), 1)
        parameters = list(model.parameters())
        wanted = torch.cat([g.flatten() for g in torch.autograd.grad(total / items, parameters)])
        got = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        errors.append(float((got - wanted).norm() / (wanted.norm() or 1.0)))

    scope: dict[str, Any] = {}
    exec(compile(source, "loop", "exec"), scope)
    hook = register_optimizer_step_pre_hook(watch)
    try:
        reported = scope["train"](model, loader, optimizer, steps)
    finally:
        hook.remove()
    assert len(errors) == len(windows)
    return errors, reported


@loops
@pytest.mark.parametrize("steps", [1, 4])
def test_meets_the_reference(name: str, steps: int) -> None:
    source = HEAD + LOOPS[name]
    before, said = _run(source, steps)
    fixed = fix(source)
    after, says = _run(fixed, steps)
    assert max(after) < PARITY
    assert steps == 1 or max(before) > FAULT
    assert says == pytest.approx(said, rel=PARITY, nan_ok=True)
    assert fix(fixed) == fixed


@loops
def test_items_are_counted_once(name: str) -> None:
    assert fix(HEAD + LOOPS[name]).count("num_items += ") == 1


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        # the second loss is over other labels
        ("loss_adv = criterion(model(x).flatten(0, 1), y.flatten())",
         "loss_adv = criterion(model(x).flatten(0, 1), x.flatten())", "over different items"),
        # the labels are changed between the two
        ("        model.noise = 0.5\n", "        y = y.roll(1)\n", "over different items"),
        # the second loss is another model's
        ("loss_adv = criterion(model(x)", "loss_adv = criterion(model.critic_model(x)", "for different parameters"),
    ],
)  # fmt: skip
def test_what_one_count_does_not_divide_is_declined(old: str, new: str, reason: str) -> None:
    source = HEAD + LOOPS["adversarial"].replace(old, new)
    assert source != HEAD + LOOPS["adversarial"]
    assert fix(source, unsafe=True) == source
    said = [f.fix.message for f in findings(source) if f.fix is not None]
    assert any(reason in message for message in said)
