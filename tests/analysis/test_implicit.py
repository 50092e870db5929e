"""Losses that a framework sends backward, and the number of steps that it was given."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from gafixer.analysis import build, outside
from gafixer.analysis.events import Framework
from gafixer.analysis.project import MemoryProject
from gafixer.analysis.site import Evidence, Site
from gafixer.analysis.source import Module
from gafixer.analysis.spelling import text
from gafixer.analysis.spot import Spot
from gafixer.analysis.values import Const
from gafixer.analysis.windows import Shape

if TYPE_CHECKING:
    from pathlib import Path

MODULE = """
import lightning as L
import torch.nn.functional as F

class Captioner(L.LightningModule):
    def training_step(self, batch, batch_idx):
        logits = self.net(batch["ids"])
        loss = F.cross_entropy(logits.transpose(1, 2), batch["target"], ignore_index=0)
        return {RETURNED}
{REST}
"""


def sites(returned: str, rest: str, settings: tuple[outside.Setting, ...] = ()) -> list[Site]:
    """The sites of a module whose `training_step` returns this."""
    source = MODULE.replace("{RETURNED}", returned).replace("{REST}", textwrap.dedent(rest))
    module = Module.read("m", "m.py", source.encode(), whole=True)
    return build.sites(module, MemoryProject({}, settings=settings))


def setting(value: int) -> outside.Setting:
    """A number of steps in a configuration file."""
    where = Evidence(Spot("config.yaml", 1, 0, 1, 3), "here")
    return outside.Setting("accumulate_grad_batches", value, where)


@pytest.mark.parametrize("returned", ["loss", '{"loss": loss, "log": {}}'])
def test_returned_loss_is_divided(returned: str) -> None:
    (site,) = sites(returned, "trainer = L.Trainer(accumulate_grad_batches=4)")
    assert site.framework is Framework.LIGHTNING
    assert site.accumulates
    assert site.steps == Const(4)
    assert site.steps_given is not None
    assert [term.atom.name for term in site.terms] == ["cross_entropy"]


def test_no_accumulation() -> None:
    (site,) = sites("loss", "steps = 1\ntrainer = L.Trainer(accumulate_grad_batches=steps)")
    assert not site.accumulates
    assert not sites("loss", "trainer = L.Trainer()")[0].accumulates


def test_steps_from_a_file_beside_it() -> None:
    (site,) = sites("loss", "", (setting(1), setting(8)))
    assert site.accumulates
    assert site.steps_default == 8
    assert site.steps_given is not None
    assert site.steps_given.spot.path == "config.yaml"
    assert not sites("loss", "", (setting(1),))[0].accumulates


def test_manual_optimization_is_not_automatic() -> None:
    rest = (
        "    def __init__(self):\n        self.automatic_optimization = False\nt = L.Trainer(accumulate_grad_batches=4)"
    )
    assert sites("loss", rest) == []


DEEPSPEED = """
import deepspeed
import torch.nn.functional as F
{CONFIG}

def train(args, net, loader):
    engine, optimizer, _, _ = deepspeed.initialize(model=net, config=config)
    for batch in loader:
        loss = F.cross_entropy(engine(batch["ids"]), batch["labels"], ignore_index=-100)
        engine.backward(loss)
        engine.step()
"""


@pytest.mark.parametrize(
    ("config", "accumulates"),
    [
        ('config = {"train_batch_size": 8, "gradient_accumulation_steps": 4}', True),
        ('config = {"train_batch_size": 8, "gradient_accumulation_steps": 1}', False),
        ('config = {"train_batch_size": 8, "fp16": {"enabled": True}}', False),
        ('config = {"gradient_accumulation_steps": args.steps}', True),
        ('config = "ds.json"', True),
    ],
)
def test_deepspeed(config: str, accumulates: bool) -> None:
    module = Module.read("m", "m.py", DEEPSPEED.replace("{CONFIG}", config).encode(), whole=True)
    (site,) = build.sites(module, MemoryProject({}))
    assert site.accumulates is accumulates


@pytest.mark.parametrize(
    ("text_", "key", "value"),
    [
        ('{"gradient_accumulation_steps": 8}', "gradient_accumulation_steps", 8),
        ("trainer:\n  accumulate_grad_batches: 4\n", "accumulate_grad_batches", 4),
        ("torchrun train.py \\\n  --gradient_accumulation_steps 16 \\\n", "gradient_accumulation_steps", 16),
        ("python train.py --gradient-accumulation-steps=2", "gradient_accumulation_steps", 2),
        ("export ACCELERATE_GRADIENT_ACCUMULATION_STEPS=3", "gradient_accumulation_steps", 3),
        ('args = ["--gradient_accumulation_steps", "5"]', "gradient_accumulation_steps", 5),
    ],
)
def test_written_outside(text_: str, key: str, value: int) -> None:
    (found,) = outside.read(text_, "file")
    assert (found.key, found.value) == (key, value)
    assert found.where.spot.row == text_.count("\n", 0, text_.index(str(value))) + 1


@pytest.mark.parametrize(
    "text_",
    ["# gradient_accumulation_steps: 8", "gradient_accumulation_steps: auto", "gradient_accumulation_steps: 1.5"],
)
def test_not_written(text_: str) -> None:
    assert list(outside.read(text_, "file")) == []


def test_files_of_a_project(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "ds.json").write_text('{"gradient_accumulation_steps": 8}')
    (tmp_path / "Makefile").write_text("train:\n\tpython train.py --gradient_accumulation_steps 2\n")
    (tmp_path / "notes.md").write_text("gradient_accumulation_steps: 99")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config.cfg").write_text("gradient_accumulation_steps = 7")
    assert [found.value for found in outside.settings(outside.listing(tmp_path))] == [2, 8]


def test_steps_are_spelled_as_written() -> None:
    (site,) = sites("loss", "t = L.Trainer(accumulate_grad_batches=args.accum)")
    assert text(site.steps) == "args.accum"


COMPOSER = """
import torch.nn.functional as F
from composer import Trainer
from composer.models import ComposerModel

class Tagger(ComposerModel):
    def forward(self, batch):
        return self.net(batch["tokens"])
    def loss(self, outputs, batch):
        return F.cross_entropy(outputs.flatten(0, 1), batch["tags"].flatten(), ignore_index=0)

trainer = Trainer(model=Tagger(), {GIVEN})
"""


def composer_sites(given: str) -> list[Site]:
    """The sites of a model whose Trainer is given this."""
    module = Module.read("m", "m.py", COMPOSER.replace("{GIVEN}", given).encode(), whole=True)
    return build.sites(module, MemoryProject({}))


@pytest.mark.parametrize(
    "given", ["device_train_microbatch_size=1", 'device_train_microbatch_size="auto"', "grad_accum=2"]
)
def test_composer_splits_batches(given: str) -> None:
    (site,) = composer_sites(given)
    assert site.framework is Framework.COMPOSER
    assert site.accumulates
    assert [term.atom.name for term in site.terms] == ["cross_entropy"]


@pytest.mark.parametrize(
    "given",
    [
        "max_duration=1",
        "grad_accum=1",
        "device_train_microbatch_size=None",
        "device_train_microbatch_size=8, accumulate_train_batch_on_tokens=True",
    ],
)
def test_composer_that_is_exact(given: str) -> None:
    (site,) = composer_sites(given)
    assert not site.accumulates


IGNITE = """
from ignite.engine import Engine, Events, {NAME}
from torch import nn

def train(model, optimizer, loader, n):
    made = {NAME}(model, optimizer, nn.CrossEntropyLoss(ignore_index=0), {GIVEN})
    trainer = {TRAINER}
"""


@pytest.mark.parametrize(
    ("name", "trainer"),
    [
        ("create_supervised_trainer", "made"),
        ("supervised_training_step", "Engine(made)"),
        ("supervised_training_step_amp", "Engine(made)"),
    ],
)
@pytest.mark.parametrize(("given", "steps"), [("gradient_accumulation_steps=n", "n"), ("", None)])
def test_ignite_divides_by_what_it_is_given(name: str, trainer: str, given: str, steps: str | None) -> None:
    source = IGNITE.replace("{NAME}", name).replace("{GIVEN}", given).replace("{TRAINER}", trainer)
    (site,) = build.sites(Module.read("m", "m.py", source.encode(), whole=True), MemoryProject({}))
    assert site.framework is Framework.IGNITE
    assert site.accumulates is (steps is not None)
    assert (None if site.steps is None else text(site.steps)) == steps
    assert [term.atom.name for term in site.terms] == ["cross_entropy"]


HANDLERS = """
from ignite.engine import Engine, Events
from torch import nn

class Training:
    def __init__(self, model, optimizer, n):
        self.model, self.optimizer, self.n = model, optimizer, n
        self.criterion = nn.CrossEntropyLoss(ignore_index=0)

    def process(self, engine, batch):
        x, y = batch
        (self.criterion(self.model(x).flatten(0, 1), y.flatten()) / self.n).backward()

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

def train(model, optimizer, loader, n):
    training = Training(model, optimizer, n)
    trainer = Engine(training.process)
    trainer.add_event_handler({EVENT}, training.step)
    trainer.run(loader)
"""


@pytest.mark.parametrize(
    ("event", "shape", "flushes"),
    [
        ("Events.ITERATION_COMPLETED(every=n)", Shape.GUARDED, False),
        ("Events.ITERATION_COMPLETED(every=n) | Events.EPOCH_COMPLETED", Shape.GUARDED, True),
        ("Events.ITERATION_COMPLETED", Shape.SINGLE, False),
    ],
)
def test_steps_of_a_handler(event: str, shape: Shape, flushes: bool) -> None:
    source = HANDLERS.replace("{EVENT}", event)
    (site,) = build.sites(Module.read("m", "m.py", source.encode(), whole=True), MemoryProject({}))
    assert site.window.shape is shape
    assert site.window.flushes is flushes
