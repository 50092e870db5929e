"""A term beside the loss over the labels stays a mean over the window's microbatches, whatever its items weigh."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812 - it needs torch
from torch import Tensor, nn  # noqa: E402 - the same
from torch.optim.optimizer import register_optimizer_step_pre_hook  # noqa: E402 - the same

from gafixer.findings import Applicability  # noqa: E402 - beside the others
from gafixer.settings import Strategy  # noqa: E402 - the same
from tests.codemod.fixer import findings, fix  # noqa: E402 - the same
from tests.codemod.loops import TAGS, WORDS, batches  # noqa: E402 - the loops import torch

if TYPE_CHECKING:
    from tests.codemod.loops import Batch

PARITY, FAULT = 1e-6, 1e-3
WEIGHT = 0.3

HEAD = """\
import torch
import torch.nn.functional as F


"""
LOOPS = {
    "one_sum": """
def train(model, loader, optimizer, steps, start=0):
    reported, last = [], start
    for step, (x, labels) in enumerate(loader, start=start + 1):
        last = step
        res = model(x, labels=labels)
        loss = res.loss + 0.3 * res.aux_loss
        loss = loss / steps
        loss.backward()
        if step % steps == 0:
            optimizer.step()
            optimizer.zero_grad()
        reported.append(loss.item() * steps)
    if last % steps != 0:
        optimizer.step()
        optimizer.zero_grad()
    return reported
""",
    "in_place": """
def train(model, loader, optimizer, steps, start=0):
    reported = []
    for i, (x, labels) in enumerate(loader):
        out = model(x, labels=labels)
        loss = out["loss"]
        loss += 0.3 * out["router_loss"]
        reported.append(loss.item())
        if steps > 1:
            loss = loss / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    return reported
""",
    "rebound": """
def train(model, loader, optimizer, steps, start=0):
    reported = []
    weight = 0.3
    for i, (x, y) in enumerate(loader):
        out = model(x)
        loss = F.cross_entropy(out.logits.flatten(0, 1), y.flatten(), ignore_index=-100)
        aux = out.aux_loss
        loss = loss + weight * aux
        reported.append(loss.item())
        (loss / steps).backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    return reported
""",
    "made_in_the_sum": """
def train(model, loader, optimizer, steps, start=0):
    reported = []
    for i, (x, y) in enumerate(loader):
        out = model(x)
        loss = F.cross_entropy(out.logits.flatten(0, 1), y.flatten(), ignore_index=-100) + out.aux_loss * 0.3
        reported.append(loss.item())
        loss = loss / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    return reported
""",
}
loops = pytest.mark.parametrize("name", LOOPS)


class Output(dict[str, Tensor]):
    """An output that can be asked by attribute and by key."""

    def __getattr__(self, name: str) -> Tensor:
        return self[name]


class Experts(nn.Module):
    """A tagger with a router, whose balance is a loss of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 6)
        self.router = nn.Linear(6, 3)
        self.head = nn.Linear(6, TAGS)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Output:
        """The logits, the balance, and where there are labels the mean over those that come next."""
        hidden = self.embedding(x).tanh()
        gates = self.router(hidden).softmax(-1)
        logits = self.head(hidden * gates.amax(-1, keepdim=True))
        balance = 3 * gates.flatten(0, 1).mean(0).square().sum()
        made = Output(logits=logits, aux_loss=balance, router_loss=balance)
        if labels is not None:
            made["loss"] = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return made


def _total(output: Output, labels: Tensor, *, shifted: bool) -> Tensor:
    logits, labels = (output.logits[:, :-1], labels[:, 1:]) if shifted else (output.logits, labels)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")


def _run(
    source: str, steps: int, loader: list[Batch], *, shifted: bool, start: int = 0
) -> tuple[list[float], list[float]]:
    """The relative error of each step's gradient, and what the loop reported."""
    torch.manual_seed(0)
    model = Experts().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    first = steps - start % steps
    cuts = [0, *range(first, len(loader), steps), len(loader)]
    windows = [loader[a:b] for a, b in itertools.pairwise(cuts)]
    errors: list[float] = []

    def watch(*_: object) -> None:
        window = windows[len(errors)]
        outputs = [model(x) for x, _ in window]
        sums = [_total(out, y, shifted=shifted) for out, (_, y) in zip(outputs, window, strict=True)]
        items = sum(int(y[:, int(shifted) :].ne(-100).sum()) for _, y in window)
        balance = torch.stack([out.aux_loss for out in outputs]).mean()
        total = torch.stack(sums).sum() / items + WEIGHT * balance
        parameters = list(model.parameters())
        wanted = torch.cat([g.flatten() for g in torch.autograd.grad(total, parameters)])
        got = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        errors.append(float((got - wanted).norm() / wanted.norm()))

    scope: dict[str, Any] = {}
    exec(compile(source, "loop", "exec"), scope)
    hook = register_optimizer_step_pre_hook(watch)
    try:
        reported = scope["train"](model, loader, optimizer, steps, start)
    finally:
        hook.remove()
    assert len(errors) == len(windows)
    return errors, reported


#: The loss is that of the model, which shifts its labels.
SHIFTED = {"one_sum", "in_place"}


@loops
@pytest.mark.parametrize("steps", [1, 4])
def test_meets_the_reference(name: str, steps: int) -> None:
    source, shifted = HEAD + LOOPS[name], name in SHIFTED
    before, said = _run(source, steps, batches(10), shifted=shifted)
    fixed = fix(source, unsafe=True)
    after, says = _run(fixed, steps, batches(10), shifted=shifted)
    assert max(after) < PARITY
    assert steps == 1 or max(before) > FAULT
    assert says == pytest.approx(said, rel=PARITY, nan_ok=True)
    assert fix(fixed, unsafe=True) == fixed


def test_windows_go_on_where_training_resumed() -> None:
    """An epoch is resumed behind its sixth microbatch: its first window has two left."""
    fixed = fix(HEAD + LOOPS["one_sum"], unsafe=True)
    assert "restarts=True, start=start" in fixed
    errors, _ = _run(fixed, 4, batches(9), shifted=True, start=6)
    assert len(errors) == 3
    assert max(errors) < PARITY


@loops
def test_only_on_request(name: str) -> None:
    assert fix(HEAD + LOOPS[name]) == HEAD + LOOPS[name]


def test_gradients_cannot_keep_them_apart() -> None:
    source = HEAD + LOOPS["one_sum"]
    assert fix(source, unsafe=True, strategy=Strategy.RESCALE) == source


def test_a_term_on_some_ways_only_is_declined() -> None:
    source = HEAD + LOOPS["in_place"].replace(
        '        loss += 0.3 * out["router_loss"]\n',
        '        if model.training:\n            loss = loss + 0.3 * out["router_loss"]\n',
    )
    (made,) = [f.fix for f in findings(source) if f.code == "GA101"]
    assert made is not None
    assert made.applicability is Applicability.DISPLAY
