"""Trainers of ignite are fixed and run, by its own engine where that is installed and by a stand-in for it."""

from __future__ import annotations

import functools
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from tests.codemod.fixer import fix  # noqa: E402 - the loops import torch
from tests.codemod.loops import batches, run  # noqa: E402 - the same

if TYPE_CHECKING:
    from collections.abc import Callable

PARITY, FAULT = 1e-6, 1e-3

HEAD = """\
import torch
import torch.nn.functional as F
from ignite.engine import Engine, Events
from torch import nn


"""
LOOPS = {
    "closure": """\
def train(model, loader, optimizer, steps):
    def update(engine, batch):
        model.train()
        x, y = batch
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100) / steps
        loss.backward()
        if engine.state.iteration % steps == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    reported = []
    trainer = Engine(update)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: reported.append(engine.state.output))
    trainer.run(loader, max_epochs=1)
    return reported
""",
    "closure_that_clips": """\
def train(model, loader, optimizer, steps):
    # What is done for each batch.
    def update(engine, batch):
        \"\"\"One microbatch.\"\"\"
        model.train()
        x, y = batch
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        loss /= steps
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
        if engine.state.iteration % steps == 0:
            optimizer.step()
            optimizer.zero_grad()

    trainer = Engine(update)
    trainer.run(loader, max_epochs=1)
""",
    "top_level": """\
def update(engine, batch):
    x, y = batch
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
    (loss / steps).backward()
    if engine.state.iteration % steps == 0:
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


trainer = Engine(update)


def train(given, loader, given_optimizer, given_steps):
    global model, optimizer, steps
    model, optimizer, steps = given, given_optimizer, given_steps
    trainer.run(loader, max_epochs=1)
""",
    "method": """\
class Training:
    def __init__(self, model, optimizer, steps):
        self.model, self.optimizer, self.steps = model, optimizer, steps
        self.criterion = nn.CrossEntropyLoss(ignore_index=-100)
        self.reported = []

    def update(self, engine, batch):
        x, y = batch
        loss = self.criterion(self.model(x).flatten(0, 1), y.flatten())
        (loss / self.steps).backward()
        self.reported.append(loss.item())
        if engine.state.iteration % self.steps == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()


def train(model, loader, optimizer, steps):
    training = Training(model, optimizer, steps)
    trainer = Engine(training.update)
    trainer.run(loader, max_epochs=1)
    return training.reported
""",
}


class Engine:
    """As much of ignite's as trainers here need."""

    def __init__(self, process: Callable[[Engine, Any], Any]) -> None:
        self._process = process
        self._handlers: list[tuple[str, Callable[[Engine], Any]]] = []
        self.state = SimpleNamespace(iteration=0, epoch=0, batch=None, output=None)

    def add_event_handler(self, event: str, handler: Callable[[Engine], Any]) -> None:
        """Call a handler at an event."""
        self._handlers.append((event, handler))

    def on(self, event: str) -> Callable[[Callable[[Engine], Any]], Callable[[Engine], Any]]:
        """The same as a decorator."""

        def add(handler: Callable[[Engine], Any]) -> Callable[[Engine], Any]:
            self.add_event_handler(event, handler)
            return handler

        return add

    def _fire(self, event: str) -> None:
        for wanted, handler in self._handlers:
            if wanted == event:
                handler(self)

    def run(self, data: Any, max_epochs: int) -> None:
        """Call the process function for each batch of each epoch."""
        for _ in range(max_epochs):
            for batch in data:
                self.state.iteration += 1
                self.state.batch = batch
                self._fire(Events.ITERATION_STARTED)
                self.state.output = self._process(self, batch)
                self._fire(Events.ITERATION_COMPLETED)


class Events:
    """The events that trainers here name."""

    ITERATION_STARTED = "started"
    ITERATION_COMPLETED = "completed"


@pytest.fixture(params=["stand_in", "ignite"], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the trainers import."""
    if request.param == "ignite":
        pytest.importorskip("ignite")
        return
    module = ModuleType("ignite.engine")
    module.__dict__.update(Engine=Engine, Events=Events)
    monkeypatch.setitem(sys.modules, "ignite", ModuleType("ignite"))
    monkeypatch.setitem(sys.modules, "ignite.engine", module)


@functools.cache
def _fixed(name: str) -> str:
    return fix(HEAD + LOOPS[name])


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("steps", [1, 4])
def test_meets_the_reference(name: str, steps: int) -> None:
    before, said = run(HEAD + LOOPS[name], steps, batches(8))
    after, says = run(_fixed(name), steps, batches(8))
    assert len(after) == len(before) == 8 // steps
    assert max(after) < PARITY
    assert steps == 1 or max(before) > FAULT
    assert says == pytest.approx(said, rel=PARITY, nan_ok=True)


@pytest.mark.parametrize("name", LOOPS)
def test_a_second_run_changes_nothing(name: str) -> None:
    assert fix(_fixed(name), unsafe=True) == _fixed(name)


def test_the_count_stands_apart() -> None:
    made = _fixed("closure_that_clips")
    assert "    num_items = 0\n\n    # What is done for each batch.\n    def update(engine, batch):\n" in made
    assert '        """One microbatch."""\n        nonlocal num_items\n        model.train()\n' in made
    assert "\n\n\nnum_items = 0\n\n\ndef update(engine, batch):\n    global num_items\n" in _fixed("top_level")


def test_two_functions_that_go_backward_are_left_alone() -> None:
    other = LOOPS["closure"].split("\n\n    reported")[0].split("\n", 1)[1].replace("update", "other")
    both = LOOPS["closure"].replace("    reported = []\n", f"{other}\n\n    reported = []\n    Engine(other).run(loader)\n")
    assert fix(HEAD + both, unsafe=True) == HEAD + both
