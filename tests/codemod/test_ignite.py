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
from ignite.engine import Engine, Events, create_supervised_trainer
from torch import nn


"""
#: Those whose fix assumes something.
SUPERVISED = {
    "supervised": """\
def train(model, loader, optimizer, steps):
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    reported = []
    trainer = create_supervised_trainer(
        model,
        optimizer,
        criterion,
        model_transform=lambda output: output.transpose(1, 2),
        gradient_accumulation_steps=steps,
    )
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: reported.append(engine.state.output))
    trainer.run(loader, max_epochs=1)
    return reported
""",
    "criterion_shared_with_evaluation": """\
def train(model, loader, optimizer, steps):
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    trainer = create_supervised_trainer(
        model, optimizer, criterion, gradient_accumulation_steps=steps, model_transform=lambda o: o.transpose(1, 2)
    )
    trainer.run(loader, max_epochs=1)
    return [criterion(model(x).transpose(1, 2), y).item() for x, y in loader]
""",
    "run_twice": """\
def train(model, loader, optimizer, steps):
    trainer = create_supervised_trainer(
        model,
        optimizer,
        nn.CrossEntropyLoss(ignore_index=-100),
        model_transform=lambda output: output.transpose(1, 2),
        gradient_accumulation_steps=steps,
    )
    if steps > 1:
        trainer.run(loader[-steps + 1 :], max_epochs=1)
        trainer.state.iteration = trainer.state.epoch = 0
    trainer.run(loader, max_epochs=1)
""",
}
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

ALL = LOOPS | SUPERVISED


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


def create_supervised_trainer(
    model: Any,
    optimizer: Any,
    criterion: Any,
    model_transform: Any,
    gradient_accumulation_steps: int,
    output_transform: Any = lambda x, y, y_pred, loss: loss.item(),
) -> Engine:
    """As ignite's: it clears where a window begins, divides by the steps, and reports the loss undivided."""

    def update(engine: Engine, batch: Any) -> Any:
        if (engine.state.iteration - 1) % gradient_accumulation_steps == 0:
            optimizer.zero_grad()
        x, y = batch
        y_pred = model_transform(model(x))
        loss = criterion(y_pred, y) / gradient_accumulation_steps
        loss.backward()
        if engine.state.iteration % gradient_accumulation_steps == 0:
            optimizer.step()
        return output_transform(x, y, y_pred, loss * gradient_accumulation_steps)

    return Engine(update)


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
    module.__dict__.update(Engine=Engine, Events=Events, create_supervised_trainer=create_supervised_trainer)
    monkeypatch.setitem(sys.modules, "ignite", ModuleType("ignite"))
    monkeypatch.setitem(sys.modules, "ignite.engine", module)


@functools.cache
def _fixed(name: str) -> str:
    if name in SUPERVISED:
        assert fix(HEAD + SUPERVISED[name]) == HEAD + SUPERVISED[name]
        return fix(HEAD + SUPERVISED[name], unsafe=True)
    return fix(HEAD + LOOPS[name])


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("steps", [1, 4])
def test_meets_the_reference(name: str, steps: int) -> None:
    before, said = run(HEAD + ALL[name], steps, batches(8))
    after, says = run(_fixed(name), steps, batches(8))
    assert len(after) == len(before) == 8 // steps
    assert max(after) < PARITY
    assert steps == 1 or max(before) > FAULT
    assert says == pytest.approx(said, rel=PARITY, nan_ok=True)


@pytest.mark.parametrize("name", ALL)
def test_a_second_run_changes_nothing(name: str) -> None:
    assert fix(_fixed(name), unsafe=True) == _fixed(name)


def test_the_count_stands_apart() -> None:
    made = _fixed("closure_that_clips")
    assert "    num_items = 0\n\n    # What is done for each batch.\n    def update(engine, batch):\n" in made
    assert '        """One microbatch."""\n        nonlocal num_items\n        model.train()\n' in made
    assert "\n\n\nnum_items = 0\n\n\ndef update(engine, batch):\n    global num_items\n" in _fixed("top_level")


def test_two_functions_that_go_backward_are_left_alone() -> None:
    other = LOOPS["closure"].split("\n\n    reported")[0].split("\n", 1)[1].replace("update", "other")
    more = f"{other}\n\n    reported = []\n    Engine(other).run(loader)\n"
    both = LOOPS["closure"].replace("    reported = []\n", more)
    assert fix(HEAD + both, unsafe=True) == HEAD + both


def test_handlers_of_a_script() -> None:
    """At the top level the count is a global, and functions stand two lines apart."""
    script = """\
from ignite.engine import create_supervised_trainer
from torch import nn, optim

model = nn.Linear(3, 5)
optimizer = optim.SGD(model.parameters(), lr=0.1)
trainer = create_supervised_trainer(
    model, optimizer, nn.CrossEntropyLoss(ignore_index=0), gradient_accumulation_steps=4
)
trainer.run(loader)
"""
    made = fix(script, unsafe=True)
    assert "from ignite.engine import Events, create_supervised_trainer\n" in made
    assert made.endswith(
        """\
num_items = 0


@trainer.on(Events.ITERATION_STARTED)
def count_items(engine):
    global num_items
    if (engine.state.iteration - 1) % 4 == 0:
        num_items = 0
    num_items += engine.state.batch[1].ne(0).sum()


@optimizer.register_step_pre_hook
def divide_gradients(*_):
    _divide_gradients(model.parameters(), num_items / 4)


trainer.run(loader)
"""
    )


@pytest.mark.parametrize("given", ["prepare_batch=prepare", "output_transform=report", 'amp_mode="apex"'])
def test_what_the_trainer_does_otherwise_is_left_alone(given: str) -> None:
    source = HEAD + SUPERVISED["supervised"].replace("gradient_acc", f"{given},\n        gradient_acc", 1)
    assert fix(source, unsafe=True) == source
