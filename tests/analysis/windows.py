"""Loops that people write around an optimizer step, and the window that each has."""

from __future__ import annotations

from dataclasses import dataclass, field

from gafixer.analysis.windows import Shape

__all__ = ["GUARDED", "Loop"]


@dataclass(frozen=True, slots=True)
class Loop:
    """A script and what its one window must be.

    `steps` is G as the code spells it, None where it isn't visible. `first` is 0 where the first window has all its
    microbatches, 1 where it steps after the first one, -1 where it is one short; None where it can't be told.
    """

    name: str
    source: str
    shape: Shape = Shape.GUARDED
    steps: str | None = "n"
    first: int | None = None
    flushes: bool = False
    modules: dict[str, str] = field(default_factory=dict)


_GUARD = """\
def train(model, loader, optimizer, n):
    for {target} in {over}:
        loss = model(x, labels=y).loss / n
        loss.backward()
        if {test}:
            optimizer.step()
            optimizer.zero_grad()
"""


def _guard(
    test: str,
    first: int | None,
    *,
    over: str = "enumerate(loader)",
    target: str = "i, (x, y)",
    flushes: bool = False,
    steps: str | None = "n",
) -> Loop:
    source = _GUARD.format(target=target, over=over, test=test)
    return Loop(f"if {test} over {over}", source, first=first, flushes=flushes, steps=steps)


_ONE_BASED = "enumerate(loader, 1)"
_COUNTER = """\
def train(model, loader, optimizer, n):
    {before}
    for x, y in loader:
        {early}
        loss = model(x, labels=y).loss / n
        loss.backward()
        {late}
        if {test}:
            optimizer.step()
            optimizer.zero_grad()
            {reset}
"""


def _counter(name: str, first: int | None, **parts: str) -> Loop:
    filled = {"before": "count = 0", "early": "pass", "late": "pass", "reset": "pass", **parts}
    return Loop(name, _COUNTER.format(**filled), first=first)


GUARDED = [
    _guard("(i + 1) % n == 0", 0),
    _guard("not (i + 1) % n", 0),
    _guard("0 == (i + 1) % n", 0),
    _guard("(1 + i) % n == 0", 0),
    _guard("((i + 1) % n) == 0", 0),
    _guard("i % n == n - 1", 0),
    _guard("i % n == (n - 1)", 0),
    _guard("i % n == 0", 1),
    _guard("not i % n", 1),
    _guard("(i + 2) % n == 0", -1),
    _guard("i % n == 0", 0, over=_ONE_BASED),
    _guard("not i % n", 0, over=_ONE_BASED),
    _guard("i % n == 0", 0, over="enumerate(loader, start=1)"),
    _guard("(i + 1) % n == 0", -1, over=_ONE_BASED),
    _guard("(i + 1) % n == 0", 0, over="enumerate(tqdm(loader))"),
    _guard("(i + 1) % n == 0", 0, over="tqdm(enumerate(loader), total=len(loader))"),
    _guard("(i + 1) % n == 0", 0, over="enumerate(zip(loader, loader))"),
    _guard("(i + 1) % n == 0 and i > 0", 0),
    _guard("i != 0 and (i + 1) % n == 0", 0),
    _guard("(i + 1) % n == 0 or i + 1 == len(loader)", 0, flushes=True),
    _guard("(i + 1) % n == 0 or (i + 1) == len(loader)", 0, flushes=True),
    _guard("(i + 1) % n == 0 or i == len(loader) - 1", 0, flushes=True),
    _guard("i == len(loader) - 1 or (i + 1) % n == 0", 0, flushes=True),
    _guard("i % n == n - 1 or i == len(loader) - 1", 0, flushes=True),
    _guard("(i + 1) % n == 0 or is_last", 0, flushes=True),
    _guard("(i + 1) % n == 0 or new_epoch", 0, flushes=True),
    _guard("not ((i + 1) % n != 0 and not x.ends)", 0, flushes=True),
    _guard("(i + 1) % n == 0 and new_epoch", 0),
    _guard("(i + 1) % 4 == 0", 0, steps="4"),
    _guard("i % 4 == 3", 0, steps="4"),
    _guard("i % 4 == 0", 1, steps="4"),
    _guard("(i + 1) % args.accumulation_steps == 0", 0, steps="args.accumulation_steps"),
    _counter("counter before the test", 0, late="count += 1", test="count % n == 0"),
    _counter("counter before the loss", 0, early="count += 1", test="count % n == 0"),
    _counter("counter from one", 0, before="count = 1", test="count % n == 0", reset="pass\n        count += 1"),
    _counter("counter from nought", 1, test="count % n == 0", reset="pass\n        count += 1"),
    _counter("counter that is reset", 0, late="count += 1", test="count == n", reset="count = 0"),
    _counter("counter that reaches", 0, late="count += 1", test="count >= n", reset="count = 0"),
    _counter("counter by assignment", 0, late="count = count + 1", test="count == n", reset="count = 0"),
    _counter("counter that wraps", 0, late="count = (count + 1) % n", test="count == 0"),
    Loop(
        "a flag of two branches",
        """\
def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        if n == 1:
            update = True
        else:
            update = True if (i + 1) % n == 0 else False
        (model(x, labels=y).loss / n).backward()
        if update:
            optimizer.step()
            optimizer.zero_grad()
""",
        first=0,
    ),
    Loop(
        "a flag that says when not",
        """\
def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        waits = False if (i + 1) % n == 0 else True
        (model(x, labels=y).loss / n).backward()
        if not waits:
            optimizer.step()
            optimizer.zero_grad()
""",
        first=0,
    ),
    Loop(
        "early continue",
        """\
def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        (model(x, labels=y).loss / n).backward()
        if (i + 1) % n:
            continue
        optimizer.step()
        optimizer.zero_grad()
""",
        first=0,
    ),
    Loop(
        "early continue by inequality",
        """\
def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        (model(x, labels=y).loss / n).backward()
        if (i + 1) % n != 0:
            continue
        optimizer.step()
        optimizer.zero_grad()
""",
        first=0,
    ),
    Loop(
        "step in the other arm",
        """\
def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        (model(x, labels=y).loss / n).backward()
        if (i + 1) % n != 0:
            pass
        else:
            optimizer.step()
            optimizer.zero_grad()
""",
        first=0,
    ),
    Loop(
        "named test",
        """\
def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        last = (i + 1) % n == 0
        (model(x, labels=y).loss / n).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
""",
        first=0,
    ),
    Loop(
        "named test, negated",
        """\
def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        more = (i + 1) % n != 0
        (model(x, labels=y).loss / n).backward()
        if not more:
            optimizer.step()
            optimizer.zero_grad()
""",
        first=0,
    ),
    Loop(
        "flush after the loop",
        """\
def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        (model(x, labels=y).loss / n).backward()
        if (i + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()
""",
        first=0,
        flushes=True,
    ),
    Loop(
        "guarded flush after the loop",
        """\
def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        (model(x, labels=y).loss / n).backward()
        if (i + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
    if len(loader) % n != 0:
        optimizer.step()
        optimizer.zero_grad()
""",
        first=0,
        flushes=True,
    ),
    Loop(
        "step in another method",
        """\
class Trainer:
    def __init__(self, model, optimizer, n):
        self.model, self.optimizer, self.n = model, optimizer, n

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def fit(self, loader):
        for i, (x, y) in enumerate(loader):
            (self.model(x, labels=y).loss / self.n).backward()
            if (i + 1) % self.n == 0:
                self.update()
""",
        first=0,
    ),
    Loop(
        "guard in another method",
        """\
class Trainer:
    def __init__(self, model, optimizer, n):
        self.model, self.optimizer, self.n = model, optimizer, n

    def maybe(self, i):
        if (i + 1) % self.n == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()

    def fit(self, loader):
        for i, (x, y) in enumerate(loader):
            (self.model(x, labels=y).loss / self.n).backward()
            self.maybe(i)
""",
        first=0,
    ),
    Loop(
        "step in another file",
        """\
from stepping import advance

def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        (model(x, labels=y).loss / n).backward()
        advance(optimizer, i, n)
""",
        first=0,
        modules={
            "stepping": """\
            def advance(optimizer, i, n):
                if (i + 1) % n == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """
        },
    ),
    Loop(
        "GradScaler",
        """\
def train(model, loader, optimizer, scaler, n):
    for i, (x, y) in enumerate(loader):
        scaler.scale(model(x, labels=y).loss / n).backward()
        if (i + 1) % n == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
""",
        first=0,
    ),
    Loop(
        "scaler that steps for its caller",
        """\
def train(model, loader, optimizer, loss_scaler, n):
    for i, (x, y) in enumerate(loader):
        loss = model(x, labels=y).loss / n
        loss_scaler(loss, optimizer, parameters=model.parameters(), update_grad=(i + 1) % n == 0)
        if (i + 1) % n == 0:
            optimizer.zero_grad()
""",
        first=0,
    ),
    Loop(
        "nested range",
        """\
def train(model, batches, optimizer, n):
    for epoch in range(3):
        for _ in range(n):
            x, y = next(batches)
            (model(x, labels=y).loss / n).backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        Shape.NESTED,
    ),
    Loop(
        "slices of a batch",
        """\
def train(model, loader, optimizer, n):
    for x, y in loader:
        for a, b in zip(x.chunk(n), y.chunk(n)):
            (model(a, labels=b).loss / n).backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        Shape.NESTED,
    ),
    Loop(
        "split of a batch",
        """\
def train(model, loader, optimizer, size):
    for batch in loader:
        parts = batch.split(size)
        for part in parts:
            (model(part, labels=part).loss / len(parts)).backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        Shape.NESTED,
        steps=None,
    ),
    Loop(
        "ranges of a batch",
        """\
def train(model, loader, optimizer, n, size):
    for x, y in loader:
        for k in range(n):
            part = slice(k * size, (k + 1) * size)
            (model(x[part], labels=y[part]).loss / n).backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        Shape.NESTED,
    ),
    Loop(
        "while counts to the steps",
        """\
def train(model, batches, optimizer, n):
    for step in range(100):
        micro = 0
        while micro < n:
            x, y = next(batches)
            (model(x, labels=y).loss / n).backward()
            micro += 1
        optimizer.step()
        optimizer.zero_grad()
""",
        Shape.NESTED,
    ),
    Loop(
        "endless while with a counter",
        """\
def train(model, batches, optimizer, n):
    i = 0
    while True:
        x, y = next(batches)
        (model(x, labels=y).loss / n).backward()
        i += 1
        if i % n == 0:
            optimizer.step()
            optimizer.zero_grad()
""",
        first=0,
    ),
    Loop(
        "every microbatch",
        """\
def train(model, loader, optimizer):
    for x, y in loader:
        model(x, labels=y).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
        Shape.SINGLE,
        steps=None,
    ),
    Loop(
        "no step in sight",
        """\
def compute(model, loader):
    for x, y in loader:
        model(x, labels=y).loss.backward()
""",
        Shape.UNSEEN,
        steps=None,
    ),
    Loop(
        "accelerate accumulate",
        """\
from accelerate import Accelerator

def train(model, loader, optimizer):
    accelerator = Accelerator(gradient_accumulation_steps=4)
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(x, labels=y).loss)
            optimizer.step()
            optimizer.zero_grad()
""",
        Shape.FRAMEWORK,
        steps=None,
    ),
    Loop(
        "accelerate sync_gradients",
        """\
from accelerate import Accelerator

def train(model, loader, optimizer, scheduler):
    accelerator = Accelerator(gradient_accumulation_steps=4)
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(x, labels=y).loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
""",
        Shape.FRAMEWORK,
        steps=None,
    ),
    Loop(
        "step where sync_gradients says so",
        """\
def train(accelerator, model, loader, optimizer):
    for x, y in loader:
        accelerator.backward(model(x, labels=y).loss)
        if accelerator.sync_gradients:
            optimizer.step()
            optimizer.zero_grad()
""",
        Shape.FRAMEWORK,
        steps=None,
    ),
    Loop(
        "no_sync in all but the last",
        """\
import contextlib

def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        last = (i + 1) % n == 0
        with contextlib.nullcontext() if last else model.no_sync():
            (model(x, labels=y).loss / n).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
""",
        first=0,
    ),
    Loop(
        "no_sync in an arm of its own",
        """\
def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        if (i + 1) % n != 0:
            with model.no_sync():
                (model(x, labels=y).loss / n).backward()
        else:
            (model(x, labels=y).loss / n).backward()
            optimizer.step()
            optimizer.zero_grad()
""",
        first=0,
    ),
    Loop(
        "two optimizers by turns",
        """\
def train(model, loader, warm_optimizer, optimizer, warm_steps):
    step = 0
    for x, y in loader:
        step += 1
        loss = model(x, labels=y).loss
        if step <= warm_steps:
            loss.backward()
            warm_optimizer.step()
        else:
            loss.backward()
            optimizer.step()
""",
        Shape.SINGLE,
        steps=None,
    ),
    Loop(
        "no_backward_sync",
        """\
def train(fabric, model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        accumulating = (i + 1) % n != 0
        with fabric.no_backward_sync(model, enabled=accumulating):
            fabric.backward(model(x, labels=y).loss / n)
        if not accumulating:
            optimizer.step()
            optimizer.zero_grad()
""",
        first=0,
    ),
]
