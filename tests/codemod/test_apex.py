"""Loops that go backward through Apex are fixed and run by a stand-in for it, which can't be installed from an index.

The stand-in scales the loss by another factor for each microbatch, as dynamic loss scaling may, and afterwards takes
the factor out of what was added to the gradients, as `apex.amp` does at O1.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")

from tests.codemod.fixer import fix  # noqa: E402 - the loops import torch
from tests.codemod.loops import batches, run  # noqa: E402 - the same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor, nn
    from torch.optim import Optimizer

PARITY, FAULT = 1e-6, 1e-3

HEAD = """\
import torch
import torch.nn.functional as F
from apex import amp
from torch import nn


"""
LOOPS = {
    "always": """\
def train(model, loader, optimizer, steps):
    reported = []
    for i, (x, y) in enumerate(loader, 1):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100) / steps
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        reported.append(loss.item())
        if i % steps == 0 or i == len(loader):
            torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1e9)
            optimizer.step()
            optimizer.zero_grad()
    return reported
""",
    "on_request": """\
def train(model, loader, optimizer, steps, fp16=True):
    for i, (x, y) in enumerate(loader, 1):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        if steps > 1:
            loss = loss / steps
        if fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        if i % steps == 0 or i == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
    "clipped_in_both_arms": """\
def train(model, loader, optimizer, steps, fp16=True):
    for i, (x, y) in enumerate(loader, 1):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100) / steps
        if fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
                torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1e9)
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
        if i % steps == 0 or i == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
    "a_model_that_averages": """\
class Tagger(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, y):
        return F.cross_entropy(self.net(x).flatten(0, 1), y.flatten(), ignore_index=-100)


def train(net, loader, optimizer, steps):
    model = Tagger(net)
    for i, (x, y) in enumerate(loader, 1):
        loss = model(x, y) / steps
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        if i % steps == 0 or i == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
}


class Amp(ModuleType):
    """`apex.amp`."""

    def __init__(self) -> None:
        super().__init__("apex.amp")
        self._factors = itertools.cycle([2.0**10, 2.0**11, 2.0**9])

    @contextlib.contextmanager
    def scale_loss(self, loss: Tensor, optimizer: Optimizer) -> Iterator[Tensor]:
        """Scale the loss; what its backward adds to the gradients is unscaled."""
        factor = next(self._factors)
        before = {p: p.grad for p in self.master_params(optimizer)}
        for parameter in before:
            parameter.grad = None
        yield loss * factor
        for parameter, kept in before.items():
            if parameter.grad is not None:
                parameter.grad = parameter.grad / factor + (0.0 if kept is None else kept)

    @staticmethod
    def master_params(optimizer: Optimizer) -> Iterator[nn.Parameter]:
        """The parameters that the optimizer has."""
        return (parameter for group in optimizer.param_groups for parameter in group["params"])


@pytest.fixture(autouse=True)
def apex(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the loops import."""
    package = ModuleType("apex")
    package.amp = Amp()  # type: ignore[attr-defined] # a module made here
    monkeypatch.setitem(sys.modules, "apex", package)


@functools.cache
def _fixed(name: str) -> str:
    return fix(HEAD + LOOPS[name])


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("steps", [1, 4])
def test_meets_the_reference(name: str, steps: int) -> None:
    before, said = run(HEAD + LOOPS[name], steps, batches())
    after, says = run(_fixed(name), steps, batches())
    assert len(after) == len(before) == -(-10 // steps)
    assert max(after) < PARITY
    assert steps == 1 or max(before) > FAULT
    assert says == pytest.approx(said, rel=PARITY, nan_ok=True)


@pytest.mark.parametrize("name", LOOPS)
def test_a_second_run_changes_nothing(name: str) -> None:
    assert fix(_fixed(name), unsafe=True) == _fixed(name)


def test_each_clip_goes_with_its_condition() -> None:
    assert """\
            if fp16:
                torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1e9)
            else:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
            optimizer.step()
""" in _fixed("clipped_in_both_arms")
