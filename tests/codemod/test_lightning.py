"""Modules under Lightning's automatic optimization are mended and run by a stand-in for its Trainer.

The stand-in divides each loss by ``accumulate_grad_batches``, steps after as many and after an epoch's last batch, and
calls `on_before_optimizer_step` before clipping, as `lightning.pytorch` 2 does.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812 - as everybody imports it
from torch import Tensor, nn  # noqa: E402 - the same

from tests.codemod.fixer import fix  # noqa: E402 - beside the others

if TYPE_CHECKING:
    from collections.abc import Iterator

PARITY, FAULT = 1e-6, 1e-3
STEPS, TAGS, WORDS = 4, 5, 12

HEAD = """\
import lightning as L
import torch
import torch.nn.functional as F
from torch import nn


"""
TAIL = """


def main(net, loader):
    trainer = L.Trainer(accumulate_grad_batches=4, max_epochs=1)
    trainer.fit(Tagger(net), loader)
"""
MODULES = {
    "criterion_of_the_object": """\
class Tagger(L.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.loss_fn = nn.CrossEntropyLoss(ignore_index=-100)

    def training_step(self, batch, batch_idx):
        tokens, labels = batch
        loss = self.loss_fn(self.net(tokens).flatten(0, 1), labels.flatten())
        self.log("loss", loss)
        return loss
""",
    "validated_too": """\
class Tagger(L.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.loss_fn = nn.CrossEntropyLoss(ignore_index=-100)

    def training_step(self, batch, batch_idx):
        tokens, labels = batch
        loss = self.loss_fn(self.net(tokens).flatten(0, 1), labels.flatten())
        self.log("loss", loss)
        return {"loss": loss}

    def validation_step(self, batch, batch_idx):
        tokens, labels = batch
        self.log("validated", self.loss_fn(self.net(tokens).flatten(0, 1), labels.flatten()))
""",
    "with_a_hook": """\
class Tagger(L.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.stepped = 0

    def training_step(self, batch, batch_idx):
        tokens, labels = batch
        loss = F.cross_entropy(self.net(tokens).flatten(0, 1), labels.flatten(), ignore_index=-100)
        self.log("loss", loss)
        return loss

    def on_before_optimizer_step(self, optimizer):
        self.stepped += 1
""",
}


class Module(nn.Module):
    """A LightningModule, as far as these use one."""

    trainer: Any
    logged: list[float]

    def log(self, name: str, value: Tensor) -> None:
        """Keep what is reported."""
        del name
        self.logged.append(float(value.detach()))


class Trainer:
    """The stand-in."""

    def __init__(self, accumulate_grad_batches: int = 1, **_: object) -> None:
        self.accumulate_grad_batches, self.world_size = accumulate_grad_batches, 1
        self.strategy = SimpleNamespace(reduce=lambda tensor, reduce_op: tensor)
        self.errors: list[float] = []

    def fit(self, module: Any, loader: list[tuple[Tensor, Tensor]]) -> None:
        """Train one epoch; the gradients before each step are compared with those of the window in one batch."""
        TRAINERS.append((self, module))
        module.trainer, module.logged = self, []
        parameters = list(module.parameters())
        window: list[tuple[Tensor, Tensor]] = []
        for index, batch in enumerate(loader):
            window.append(batch)
            given = module.training_step(batch, index)
            loss = given["loss"] if isinstance(given, dict) else given
            (loss / self.accumulate_grad_batches).backward()
            if len(window) == self.accumulate_grad_batches or index + 1 == len(loader):
                if hasattr(module, "on_before_optimizer_step"):
                    module.on_before_optimizer_step(None)
                got = torch.cat([p.grad.flatten() for p in parameters])
                logits = torch.cat([module.net(tokens).flatten(0, 1) for tokens, _ in window])
                labels = torch.cat([labels.flatten() for _, labels in window])
                wanted = torch.autograd.grad(F.cross_entropy(logits, labels), parameters)
                flat = torch.cat([g.flatten() for g in wanted])
                self.errors.append(float((got - flat).norm() / flat.norm()))
                module.zero_grad()
                window = []


TRAINERS: list[tuple[Trainer, Any]] = []


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The name under which the modules import it."""
    made = ModuleType("lightning")
    made.LightningModule, made.Trainer = Module, Trainer  # type: ignore[attr-defined] # a module of our own
    monkeypatch.setitem(sys.modules, "lightning", made)
    yield
    TRAINERS.clear()


def _run(source: str) -> tuple[list[float], Any]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(WORDS, 6), nn.Tanh(), nn.Linear(6, TAGS)).double()
    loader = []
    for i in range(10):
        tokens = torch.randint(0, WORDS, (2, 9))
        labels = tokens % TAGS
        labels[:, [8, 3, 5, 1][i % 4] :] = -100
        loader.append((tokens, labels))
    scope: dict[str, Any] = {}
    exec(compile(source, "module", "exec"), scope)
    scope["main"](net, loader)
    trainer, module = TRAINERS[-1]
    return trainer.errors, module


modules = pytest.mark.parametrize("name", MODULES)


@modules
def test_meets_the_reference(name: str) -> None:
    source = HEAD + MODULES[name] + TAIL
    before, told = _run(source)
    after, tells = _run(fix(source, unsafe=True))
    assert len(before) == len(after) == 3  # the last window is short
    assert max(before) > FAULT
    assert max(after) < PARITY
    assert tells.logged == pytest.approx(told.logged)


@modules
def test_only_on_request_and_once(name: str) -> None:
    source = HEAD + MODULES[name] + TAIL
    assert fix(source) == source
    once = fix(source, unsafe=True)
    assert once != source
    assert fix(once, unsafe=True) == once


def test_a_hook_goes_on() -> None:
    _, module = _run(fix(HEAD + MODULES["with_a_hook"] + TAIL, unsafe=True))
    assert module.stepped == 3
