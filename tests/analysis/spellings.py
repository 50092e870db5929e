"""Snippets: one fault in every spelling that people use, and right code beside it. Marks say what must be found."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field

from tests.analysis.scanning import training, windowed

__all__ = ["RIGHT", "WRONG", "Spelling"]


@dataclass(frozen=True, slots=True)
class Spelling:
    """A script and the other modules of its project."""

    name: str
    source: str
    modules: dict[str, str] = field(default_factory=dict)


#: A mean over tokens that are not ignored.
CE = "loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)\n"
#: The same, per token.
EACH = "each = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0, reduction='none')\n"

_BODIES = {
    "in place": CE + "loss /= n  # GA101 error\nloss.backward()",
    "assigned": CE + "loss = loss / n  # GA101 error\nloss.backward()",
    "another name": CE + "scaled = loss / n  # GA101 error\nscaled.backward()",
    "in backward's receiver": CE + "(loss / n).backward()  # GA101 error",
    "the whole in one expression": (
        "(F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0) / n).backward()  # GA101 error"
    ),
    "reciprocal": CE + "(loss * (1 / n)).backward()  # GA101 error",
    "reciprocal first": CE + "(1.0 / n * loss).backward()  # GA101 error",
    "reciprocal in place": CE + "loss *= 1 / n  # GA101 error\nloss.backward()",
    "named reciprocal": CE + "inv = 1.0 / n\nloss = loss * inv  # GA101 error\nloss.backward()",
    "torch.div": CE + "torch.div(loss, n).backward()  # GA101 error",
    "torch.true_divide": CE + "torch.true_divide(loss, n).backward()  # GA101 error",
    "torch.divide": CE + "torch.divide(loss, n).backward()  # GA101 error",
    "torch.mul": CE + "torch.mul(loss, 1 / n).backward()  # GA101 error",
    "method div": CE + "loss.div(n).backward()  # GA101 error",
    "method true_divide": CE + "loss.true_divide(n).backward()  # GA101 error",
    "method div_ as a statement": CE + "loss.div_(n)  # GA101 error\nloss.backward()",
    "method mul_ as a statement": CE + "loss.mul_(1 / n)  # GA101 error\nloss.backward()",
    "method mul": CE + "loss.mul(1 / n).backward()  # GA101 error",
    "float of the steps": CE + "loss = loss / float(n)  # GA101 error\nloss.backward()",
    "under a condition": CE + "if n > 1:\n    loss = loss / n  # GA101 error\nloss.backward()",
    "a conditional expression": CE + "loss = loss / n if n > 1 else loss  # GA101 error\nloss.backward()",
    "gradient argument": CE + "loss.backward(torch.ones_like(loss) / n)  # GA101 error",
    "torch.autograd.backward": CE + "torch.autograd.backward(loss / n)  # GA101 error",
    "shaped first": CE + "loss = loss.float().squeeze()\nloss = loss / n  # GA101 error\nloss.backward()",
    "GradScaler": CE + "loss = loss / n  # GA101 error\nscaler.scale(loss).backward()",
    "GradScaler around the division": CE + "scaler.scale(loss / n).backward()  # GA101 error",
    "apex": (
        CE + "loss = loss / n  # GA101 error\nwith amp.scale_loss(loss, optimizer) as scaled:\n    scaled.backward()"
    ),
    "autocast": ("with torch.autocast('cuda'):\n    " + CE + "    loss = loss / n  # GA101 error\nloss.backward()"),
    "masked sum over masked count": (
        EACH + "m = mask.view(-1)\nloss = (each * mask).sum() / mask.sum()\n(loss / n).backward()  # GA101 error"
    ),
    "masked sum over a clamped count": (
        EACH + "loss = (each * mask).sum() / mask.sum().clamp(min=1)\n(loss / n).backward()  # GA101 error"
    ),
    "masked sum over a count and epsilon": (
        EACH + "loss = (each * mask).sum() / (mask.sum() + 1e-8)\n(loss / n).backward()  # GA101 error"
    ),
    "masked sum by torch functions": (
        EACH + "loss = torch.sum(each * mask) / torch.sum(mask)\n(loss / n).backward()  # GA101 error"
    ),
    "mask from a comparison": (
        EACH + "keep = y.flatten() != 0\nloss = (each * keep).sum() / keep.sum()\n(loss / n).backward()  # GA101 error"
    ),
    "selected mean": EACH + "loss = each[mask].mean()\n(loss / n).backward()  # GA101 error",
    "selected by a comparison": EACH + "loss = each[y.flatten() != 0].mean()\n(loss / n).backward()  # GA101 error",
    "masked_select": EACH + "loss = torch.masked_select(each, mask).mean()\n(loss / n).backward()  # GA101 error",
    "method masked_select": EACH + "loss = each.masked_select(mask).mean()\n(loss / n).backward()  # GA101 error",
    "sum reduction over its own count": (
        "logits = model(x).flatten(0, 1)\n"
        "total = F.cross_entropy(logits, y.flatten(), ignore_index=0, reduction='sum')\n"
        "loss = total / (y != 0).sum()\n(loss / n).backward()  # GA101 error"
    ),
    "mean of stacked losses": (
        "losses = []\nfor part, label in zip(x, y):\n"
        "    losses.append(F.cross_entropy(model(part).flatten(0, 1), label.flatten(), ignore_index=0))\n"
        "loss = torch.stack(losses).mean()\n(loss / n).backward()  # GA101 error"
    ),
    "sum of a list over its length": (
        "losses = [F.cross_entropy(model(p).flatten(0, 1), q.flatten(), ignore_index=0) for p, q in zip(x, y)]\n"
        "loss = sum(losses) / len(losses)\n(loss / n).backward()  # GA101 error"
    ),
    "sum of a dict": (
        "parts = {'first': F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)}\n"
        "loss = sum(parts.values())\n(loss / n).backward()  # GA101 error"
    ),
    "a key of a dict": (
        "out = dict(loss=F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0))\n"
        "out['loss'] /= n  # GA101 error\nout['loss'].backward()"
    ),
    "two terms": (
        CE + "again = F.cross_entropy(model(y).flatten(0, 1), x.flatten(), ignore_index=0)\n"
        "total = loss + 0.5 * again\n(total / n).backward()  # GA101 error"
    ),
    "class weights": ("loss = F.cross_entropy(model(x), y, weight=balance)\n(loss / n).backward()  # GA101 error"),
    "head with labels": ("y[y == 0] = -100\nloss = model(x, labels=y).loss\n(loss / n).backward()  # GA101 error"),
    "first of a head's outputs": (
        "y[y == 0] = -100\nloss = model(x, labels=y)[0]\n(loss / n).backward()  # GA101 error"
    ),
    "unpacked outputs of a head": (
        "y[y == 0] = -100\nloss, logits = model(x, labels=y)\n(loss / n).backward()  # GA101 error"
    ),
}

_ONE = "return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=0)"
_CALL = "(compute(model(x), y) / n).backward()  # GA101 error"

#: name -> (definitions above the loop, body of the loop)
_DEFINED = {
    "function": (f"def compute(logits, y):\n    {_ONE}\n", _CALL),
    "lambda": (
        "compute = lambda logits, y: F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=0)\n",
        _CALL,
    ),
    "tuple return": (
        f"def compute(logits, y):\n    loss = {_ONE.removeprefix('return ')}\n    return loss, logits\n",
        "loss, logits = compute(model(x), y)\nloss = loss / n  # GA101 error\nloss.backward()",
    ),
    "dict return": (
        f"def compute(logits, y):\n    return {{'loss': {_ONE.removeprefix('return ')}, 'logits': logits}}\n",
        "out = compute(model(x), y)\n(out['loss'] / n).backward()  # GA101 error",
    ),
    "division inside the function": (
        f"def compute(logits, y, n):\n    {_ONE} / n  # GA101 error\n",
        "compute(model(x), y, n).backward()",
    ),
    "keyword to the function": (
        f"def compute(logits, y, steps=1):\n    loss = {_ONE.removeprefix('return ')}\n"
        "    return loss / steps  # GA101 error\n",
        "compute(model(x), y, steps=n).backward()",
    ),
    "functools.partial of a loss": (
        "compute = functools.partial(F.cross_entropy, ignore_index=0)\n",
        "(compute(model(x).flatten(0, 1), y.flatten()) / n).backward()  # GA101 error",
    ),
    "functools.partial of a function": (
        "def general(logits, y, pad):\n"
        "    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=pad)\n"
        "compute = functools.partial(general, pad=0)\n",
        _CALL,
    ),
    "closure": (
        "def make(pad):\n    def compute(logits, y):\n"
        "        return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=pad)\n    return compute\n"
        "compute = make(0)\n",
        _CALL,
    ),
    "decorated without effect": (
        "def timed(function):\n    def inner(*args, **kwargs):\n        return function(*args, **kwargs)\n"
        f"    return inner\n@timed\ndef compute(logits, y):\n    {_ONE}\n",
        _CALL,
    ),
    "loss object": (
        "criterion = nn.CrossEntropyLoss(ignore_index=0)\n",
        "(criterion(model(x).flatten(0, 1), y.flatten()) / n).backward()  # GA101 error",
    ),
    "loss object with class weights": (
        "criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0]))\n",
        "(criterion(model(x), y) / n).backward()  # GA101 error",
    ),
    "loss class of its own": (
        "class Loss(nn.Module):\n    def __init__(self, pad):\n        super().__init__()\n        self.pad = pad\n"
        "    def forward(self, logits, y):\n"
        "        return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=self.pad)\n"
        "compute = Loss(0)\n",
        _CALL,
    ),
    "loss class with a criterion": (
        "class Loss(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.criterion = nn.CrossEntropyLoss(ignore_index=0)\n"
        "    def forward(self, logits, y):\n        return self.criterion(logits.flatten(0, 1), y.flatten())\n"
        "compute = Loss()\n",
        _CALL,
    ),
    "base class": (
        f"class Base:\n    def compute(self, logits, y):\n        {_ONE}\nclass Task(Base):\n    pass\ntask = Task()\n",
        "(task.compute(model(x), y) / n).backward()  # GA101 error",
    ),
    "super().forward": (
        f"class Base(nn.Module):\n    def forward(self, logits, y):\n        {_ONE}\n"
        "class Loss(Base):\n    def forward(self, logits, y):\n        return super().forward(logits, y)\n"
        "compute = Loss()\n",
        _CALL,
    ),
    "static method": (
        f"class Task:\n    @staticmethod\n    def compute(logits, y):\n        {_ONE}\n",
        "(Task.compute(model(x), y) / n).backward()  # GA101 error",
    ),
    "class method": (
        f"class Task:\n    @classmethod\n    def compute(cls, logits, y):\n        {_ONE}\n",
        "(Task.compute(model(x), y) / n).backward()  # GA101 error",
    ),
    "own masked mean": (
        "def masked_mean(values, mask):\n    return (values * mask).sum() / mask.sum()\n",
        EACH + "loss = masked_mean(each, mask)\n(loss / n).backward()  # GA101 error",
    ),
    "scaler object that goes backward": (
        "class NativeScaler:\n    def __init__(self):\n        self._scaler = torch.cuda.amp.GradScaler()\n"
        "    def __call__(self, loss, optimizer, update_grad=True):\n"
        "        self._scaler.scale(loss).backward()\n        if update_grad:\n"
        "            self._scaler.step(optimizer)\n            self._scaler.update()\n"
        "loss_scaler = NativeScaler()\n",
        CE + "loss = loss / n  # GA101 error\nloss_scaler(loss, optimizer, update_grad=(i + 1) % n == 0)",
    ),
    "backward helper": (
        "def go(loss):\n    loss.backward()\n",
        CE + "go(loss / n)  # GA101 error",
    ),
    "divided in the backward helper": (
        "def go(loss, n):\n    loss = loss / n  # GA101 error\n    loss.backward()\n",
        CE + "go(loss, n)",
    ),
}

_ARGPARSE = """\
import argparse
import torch.nn.functional as F

def main(model, loader, optimizer):
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulation", type=int, default=8)
    args = parser.parse_args()
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)
        loss = loss / args.accumulation  # GA101 error
        loss.backward()
        if (i + 1) % args.accumulation == 0:
            optimizer.step()
            optimizer.zero_grad()
"""

_DATACLASS = """\
from dataclasses import dataclass
import torch.nn.functional as F

@dataclass
class Config:
    steps: int = 8

def main(model, loader, optimizer, config: Config = Config()):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)
        (loss / config.steps).backward()  # GA101 error
        if (i + 1) % config.steps == 0:
            optimizer.step()
            optimizer.zero_grad()
"""

_DICT = """\
import torch.nn.functional as F

CONFIG = {"steps": 8, "lr": 1e-3}

def main(model, loader, optimizer):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)
        (loss / CONFIG["steps"]).backward()  # GA101 error
        if (i + 1) % CONFIG["steps"] == 0:
            optimizer.step()
            optimizer.zero_grad()
"""

_TRAINER = """\
import torch.nn as nn

class Trainer:
    def __init__(self, model, optimizer, loader, steps):
        self.model, self.optimizer, self.loader, self.steps = model, optimizer, loader, steps
        self.criterion = nn.CrossEntropyLoss(ignore_index=0)

    def loss(self, x, y):
        return self.criterion(self.model(x).flatten(0, 1), y.flatten())

    def scale(self, loss):
        return loss / self.steps  # GA101 error

    def fit(self):
        for i, (x, y) in enumerate(self.loader):
            self.scale(self.loss(x, y)).backward()
            if (i + 1) % self.steps == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
"""

_MODULES = {
    "function of another module": (
        "import losses\n" + training("(losses.compute(model(x), y) / n).backward()  # GA101 error"),
        {"losses": f"import torch.nn.functional as F\ndef compute(logits, y):\n    {_ONE}\n"},
    ),
    "name from another module": (
        "from losses import compute\n" + training(_CALL),
        {"losses": f"import torch.nn.functional as F\ndef compute(logits, y):\n    {_ONE}\n"},
    ),
    "class of another module": (
        "from pieces.losses import Loss\ncompute = Loss()\n" + training(_CALL),
        {
            "pieces__losses": "from torch import nn\nclass Loss(nn.Module):\n    def __init__(self):\n"
            "        self.criterion = nn.CrossEntropyLoss(ignore_index=0)\n"
            "    def forward(self, logits, y):\n        return self.criterion(logits.flatten(0, 1), y.flatten())\n"
        },
    ),
    "module of a module": (
        "from middle import compute\n" + training(_CALL),
        {
            "middle": "from losses import compute\n",
            "losses": f"import torch.nn.functional as F\ndef compute(logits, y):\n    {_ONE}\n",
        },
    ),
    "starred import": (
        "from losses import *\n" + training(_CALL),
        {"losses": f"import torch.nn.functional as F\ndef compute(logits, y):\n    {_ONE}\n"},
    ),
    "ignored label of another module": (
        "from constants import PAD\n"
        + training(
            "loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=PAD)\n"
            "(loss / n).backward()  # GA101 error"
        ),
        {"constants": "PAD = 0\n"},
    ),
}

WRONG = [
    *(Spelling(name, training(body)) for name, body in _BODIES.items()),
    *(Spelling(name, training(body, above)) for name, (above, body) in _DEFINED.items()),
    *(Spelling(name, source, modules) for name, (source, modules) in _MODULES.items()),
    Spelling("argparse", _ARGPARSE),
    Spelling("dataclass", _DATACLASS),
    Spelling("dict", _DICT),
    Spelling("trainer class", _TRAINER),
]


def _by_items(code: str) -> str:
    """The same spelling, but of a sum that is divided by the items of the window."""
    code = re.sub(r"  # GA\d{3} \w+", "", code)
    code = re.sub(r"(ignore_index=[\w.]+)(?=[,)](?! *reduction))(?!, reduction)", r"\1, reduction='sum'", code)
    code = re.sub(r"/ (float\()?n\b", r"/ \1num_items", code)
    return re.sub(r"\bn\b", "num_items", code)


#: Spellings that make a mean themselves: with the window's items for a divisor they would be other code.
_MEANS = re.compile(r"mean|mask|labels=|weight|update_grad|sum over|sum of a list|condition")

_PAIRED = [
    *(
        Spelling(f"items: {name}", windowed(_by_items(body)))
        for name, body in _BODIES.items()
        if not _MEANS.search(name + body)
    ),
    *(
        Spelling(f"items: {name}", windowed(_by_items(body), _by_items(above)))
        for name, (above, body) in _DEFINED.items()
        if not _MEANS.search(name + above)
    ),
]

#: Right in the guarded loop, whatever the number of items.
_HARMLESS = {
    "masked sum": EACH + "loss = (each * mask).sum()\n(loss / num_items).backward()",
    "selected sum": EACH + "loss = each[mask].sum()\n(loss / num_items).backward()",
    "masked_select sum": EACH + "loss = torch.masked_select(each, mask).sum()\n(loss / num_items).backward()",
    "sum of sums": (
        "parts = [F.cross_entropy(model(p), q, reduction='sum') for p, q in zip(x, y)]\n"
        "(sum(parts) / num_items).backward()"
    ),
    "stacked sums": (
        "parts = [F.cross_entropy(model(p), q, reduction='sum') for p, q in zip(x, y)]\n"
        "(torch.stack(parts).sum() / num_items).backward()"
    ),
    "mean times its own count": (CE + "loss = loss * (y != 0).sum()\n(loss / num_items).backward()"),
    "share of the window": CE + "(loss * ((y != 0).sum() / num_items)).backward()",
    "logged average": (
        "loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0, reduction='sum') / num_items\n"
        "loss.backward()\ntotal = loss.item() / n\nprint(total)"
    ),
}

_FIXED = """\
import numpy as np
import torch
import torch.nn.functional as F

data = np.memmap("train.bin", dtype=np.uint16, mode="r")

def get_batch(block_size, batch_size):
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + block_size]) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block_size]) for i in ix])
    return x, y

def train(model, optimizer, steps, block_size):
    for iteration in range(1000):
        for micro_step in range(steps):
            x, y = get_batch(block_size, 8)
            loss = {loss}
            {divided}
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
"""
_FIXED_LOSS = "F.cross_entropy(model(x).view(-1, 50257), y.view(-1))"

_IMAGES = """\
import torch.nn as nn
from torch.utils.data import DataLoader

def train(model, dataset, optimizer, steps):
    criterion = {criterion}
    loader = DataLoader(dataset, batch_size=32, drop_last=True)
    for epoch in range(10):
        for i, (images, target) in enumerate(loader):
            loss = criterion(model(images), target) / steps
            loss.backward()
            if (i + 1) % steps == 0:
                optimizer.step()
                optimizer.zero_grad()
        optimizer.zero_grad()
"""

_RESCALED = """\
import torch
import torch.nn.functional as F

def train(model, loader, optimizer, steps):
    num_items = 0
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0, reduction="sum")
        loss.backward()
        num_items += (y != 0).sum()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            {rescale}
            optimizer.step()
            optimizer.zero_grad()
            num_items = 0
"""
_RESCALES = {
    "div_": "for p in model.parameters():\n                p.grad.div_(num_items)",
    "augmented": "for p in model.parameters():\n                p.grad /= num_items",
    "reciprocal": "for p in model.parameters():\n                p.grad.mul_(1 / num_items)",
    "times": "for p in model.parameters():\n                p.grad *= 1.0 / num_items",
    "data": "for p in model.parameters():\n                p.grad.data.div_(num_items)",
    "none is skipped": (
        "for p in model.parameters():\n                if p.grad is not None:\n"
        "                    p.grad.div_(num_items)"
    ),
    "foreach": "torch._foreach_div_([p.grad for p in model.parameters()], num_items)",
    "before the clip": (
        "for p in model.parameters():\n                p.grad.div_(num_items)\n"
        "            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    ),
}

_PLAIN = """\
import torch
import torch.nn.functional as F

def train(model, critic, loader, optimizer, other, steps):
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
{body}
        optimizer.step()
"""

#: Loops that step every microbatch: whatever they divide by is no accumulation.
_STEPPED = {
    "no accumulation": CE + "loss.backward()",
    "temperature": (
        "T = 2.0\nloss = F.kl_div(F.log_softmax(model(x) / T, -1), F.softmax(y / T, -1), reduction='batchmean')\n"
        "(loss * T * T).backward()"
    ),
    "GAN halves": (
        "real = F.binary_cross_entropy_with_logits(critic(x), torch.ones(8))\n"
        "fake = F.binary_cross_entropy_with_logits(critic(model(y)), torch.zeros(8))\n"
        "((real + fake) / 2).backward()"
    ),
    "half a squared error": "loss = ((model(x) - y) ** 2).mean() / 2\nloss.backward()",
    "a coefficient": CE + "(0.5 * loss).backward()",
    "two optimizers": CE + "loss.backward()\nother.step()\nother.zero_grad()",
    "items divided for the log": CE + "loss.backward()\nprint(loss.item() / len(loader))",
    "loss meter": CE + "loss.backward()\nmeter.update(loss.item() / steps)",
    "by the batch size": ("loss = F.cross_entropy(model(x), y, reduction='sum') / x.size(0)\nloss.backward()"),
    "mean over a mask": EACH + "loss = (each * mask).sum() / mask.sum()\nloss.backward()",
    "mean over chosen rows": EACH + "each[mask].mean().backward()",
    "mean of several losses": (
        "losses = [F.cross_entropy(h, y, ignore_index=0) for h in model(x)]\n(sum(losses) / len(losses)).backward()"
    ),
    "gradient penalty": (
        CE + "g = torch.autograd.grad(loss, x, create_graph=True)[0]\npenalty = ((g.norm(2, 1) - 1) ** 2).mean()\n"
        "(loss + 10 * penalty).backward()"
    ),
}

_EVALUATION = """\
import torch
import torch.nn.functional as F

{decorator}
def evaluate(model, loader, steps):
    total = 0.0
    {context}
        for i, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)
            total += (loss / steps).item()
    return total / len(loader)

def train(model, loader, optimizer):
    for x, y in loader:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""

RIGHT = [
    *_PAIRED,
    *(Spelling(f"window: {name}", windowed(body)) for name, body in _HARMLESS.items()),
    *(
        Spelling(f"fixed blocks: {divided}", _FIXED.format(loss=_FIXED_LOSS, divided=divided))
        for divided in (
            "(loss / steps).backward()",
            "torch.div(loss, steps).backward()",
            "(loss * (1 / steps)).backward()",
            "loss.div(steps).backward()",
        )
    ),
    *(
        Spelling(f"images: {criterion}", _IMAGES.format(criterion=criterion))
        for criterion in (
            "nn.CrossEntropyLoss()",
            "nn.MSELoss()",
            "nn.BCEWithLogitsLoss()",
            "nn.L1Loss()",
            "nn.SmoothL1Loss()",
            "nn.CrossEntropyLoss(label_smoothing=0.1)",
        )
    ),
    *(Spelling(f"gradients: {name}", _RESCALED.format(rescale=rescale)) for name, rescale in _RESCALES.items()),
    *(
        Spelling(f"every microbatch steps: {name}", _PLAIN.format(body=textwrap.indent(body, " " * 8)))
        for name, body in _STEPPED.items()
    ),
    *(
        Spelling(f"evaluation: {decorator}{context}", _EVALUATION.format(decorator=decorator, context=context))
        for decorator, context in (
            ("@torch.no_grad()", "if True:"),
            ("@torch.inference_mode()", "if True:"),
            ("", "with torch.no_grad():"),
            ("", "with torch.inference_mode():"),
        )
    ),
]
