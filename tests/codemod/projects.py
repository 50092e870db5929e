"""Small projects whose window is spread over files, and the reference that their fixed form must meet.

`train` defines `train(model, loader, optimizer, steps)`, `model` the class `Tagger`; what they report is a list.
"""

from __future__ import annotations

import contextlib
import math
import sys
import types
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody imports it
from torch.optim.optimizer import register_optimizer_step_post_hook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

__all__ = ["OWN", "PROJECTS", "run"]

_MODEL = """\
import torch.nn.functional as F
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 6)
        self.tags = nn.Linear(6, 5)

    def forward(self, words, tags=None):
        logits = self.tags(self.words(words).tanh())
        if tags is None:
            return logits, None
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=-100)
        return logits, loss
"""
_TRAIN = """\
import torch
from model import Tagger


def evaluate(model, loader):
    return [model(x, y)[1].item() for x, y in loader]


def train(model, loader, optimizer, steps):
    reported = []
    for i, (x, y) in enumerate(loader, 1):
        logits, loss = model(x, y)
        loss = loss / steps
        loss.backward()
        reported.append(loss.item() * steps)
        if i % steps == 0 or i == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    return reported + evaluate(model, loader)


def main(loader, steps):
    model = Tagger()
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), steps)
"""

_BASE = """\
import torch


class Trainer:
    def __init__(self, model, optimizer, steps):
        self.model = model
        self.optimizer = optimizer
        self.steps = steps
        self.reported = []

    def training_step(self, batch):
        raise NotImplementedError

    def backward(self, loss):
        (loss / self.steps).backward()

    def step(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1e9)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def fit(self, loader):
        for i, batch in enumerate(loader, 1):
            loss = self.training_step(batch)
            self.backward(loss)
            self.reported.append(loss.item())
            if i % self.steps == 0 or i == len(loader):
                self.step()
"""
_TAGGING = """\
class Tagging(Trainer):
    def training_step(self, batch):
        x, y = batch
        logits, _ = self.model(x)
        return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100)


def train(model, loader, optimizer, steps):
    trainer = Tagging(model, optimizer, steps)
    trainer.fit(loader)
    return trainer.reported
"""

_STEPPING = """\
class Stepping:
    \"\"\"Steps when enough batches were seen.\"\"\"

    def maybe_step(self, position, last):
        if position % self.steps == 0 or position == last:
            self.optimizer.step()
            self.optimizer.zero_grad()
"""
_LOOP = """\
class Loop:
    def fit(self, loader):
        for i, batch in enumerate(loader, 1):
            self.reported.append(self.microbatch(batch))
            self.maybe_step(i, len(loader))
"""
_TRAINER = """\
from loop import Loop
from stepping import Stepping
from torch import nn


class Trainer(Loop, Stepping):
    def __init__(self, model, optimizer, steps):
        self.model = model
        self.optimizer = optimizer
        self.steps = steps
        self.criterion = nn.CrossEntropyLoss(ignore_index=-100)
        self.reported = []

    def microbatch(self, batch):
        x, y = batch
        loss = self.criterion(self.model(x)[0].flatten(0, 1), y.flatten())
        (loss / self.steps).backward()
        return loss.item()


def train(model, loader, optimizer, steps):
    trainer = Trainer(model, optimizer, steps)
    trainer.fit(loader)
    return trainer.reported
"""

#: The module that has the finding, where that isn't `train`.
OWN = {"loss_in_a_subclass": "base"}

PROJECTS = {
    "loss_in_a_subclass": {
        "model": _MODEL,
        "base": _BASE,
        "train": f"import torch.nn.functional as F\nfrom base import Trainer\n\n\n{_TAGGING}",
    },
    "step_in_a_mixin": {"model": _MODEL, "stepping": _STEPPING, "loop": _LOOP, "train": _TRAINER},
    "step_in_a_mixin_and_backward_in_a_method": {
        "model": _MODEL,
        "stepping": _STEPPING,
        "loop": _LOOP,
        "train": _TRAINER.replace("(loss / self.steps).backward()", "self.backward(loss / self.steps)").replace(
            "\n\ndef train", "\n    def backward(self, loss):\n        loss.backward()\n\n\ndef train"
        ),
    },
    "loss_in_a_third_method": {
        "model": _MODEL,
        "train": f"import torch.nn.functional as F\n{_BASE}\n\n{_TAGGING}",
    },
    "loss_in_forward": {"model": _MODEL, "train": _TRAIN},
    "loss_returned_at_once": {
        "model": _MODEL.replace("        loss = F.cross_entropy", "        return logits, F.cross_entropy").replace(
            "        return logits, loss\n", ""
        ),
        "train": _TRAIN,
    },
    "loss_under_a_penalty": {
        "model": _MODEL.replace(
            "        return logits, loss\n", "        loss = 0.5 * loss\n        return logits, loss\n"
        ),
        "train": _TRAIN,
    },
    "criterion_made_there": {
        "model": _MODEL.replace(
            "        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=-100)\n",
            "        criterion = nn.CrossEntropyLoss(ignore_index=-100)\n"
            "        loss = criterion(logits.flatten(0, 1), tags.flatten())\n",
        ),
        "train": _TRAIN,
    },
    "parameter_there_already": {
        "model": _MODEL.replace("tags=None):", 'tags=None, loss_reduction="mean"):').replace(
            "ignore_index=-100)", "ignore_index=-100, reduction=loss_reduction)"
        ),
        "train": _TRAIN,
    },
    "function_of_a_helper_module": {
        "model": _MODEL,
        "losses": """\
import torch.nn.functional as F


def tagging_loss(model, words, tags):
    logits, _ = model(words)
    return F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=-100)
""",
        "train": _TRAIN.replace("from model", "from losses import tagging_loss\nfrom model")
        .replace("        logits, loss = model(x, y)\n", "        loss = tagging_loss(model, x, y)\n")
        .replace("model(x, y)[1].item()", "tagging_loss(model, x, y).item()"),
    },
}


@contextlib.contextmanager
def _imported(sources: dict[str, str]) -> Iterator[dict[str, types.ModuleType]]:
    """The modules of a project, for as long as it runs."""
    made = {name: types.ModuleType(name) for name in sources}
    before = {name: sys.modules.get(name) for name in sources}
    sys.modules.update(made)
    try:
        for name in sorted(sources, key="train".__eq__):
            exec(compile(sources[name], f"{name}.py", "exec"), vars(made[name]))
        yield made
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def run(sources: dict[str, str], steps: int, loader: list[tuple[Tensor, Tensor]]) -> tuple[list[float], list[float]]:
    """The relative error of each step's gradient, and what the project reported."""
    errors: list[float] = []
    with _imported(sources) as modules:
        torch.manual_seed(0)
        model: Any = modules["model"].Tagger().double()
        parameters = list(model.parameters())
        scale = 0.5 if "0.5 * loss" in sources["model"] else 1.0

        def watch(*_: object) -> None:
            window = loader[len(errors) * steps :][:steps]
            total = sum(
                F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum")
                for x, y in window
            )
            assert isinstance(total, torch.Tensor)
            items = sum(int(y.ne(-100).sum()) for _, y in window)
            wanted = torch.cat([g.flatten() for g in torch.autograd.grad(scale * total / max(items, 1), parameters)])
            got = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
            error = float((got - wanted).norm() / (wanted.norm() or 1.0))
            errors.append(error if math.isfinite(error) else math.inf)

        hook = register_optimizer_step_post_hook(watch)
        try:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
            reported = modules["train"].train(model=model, loader=loader, optimizer=optimizer, steps=steps)
        finally:
            hook.remove()
    return errors, reported
