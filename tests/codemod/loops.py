"""Training loops in many spellings, each a mean of means, and the reference that their fixed form must meet.

Every loop defines `train(model, loader, optimizer, steps)` and may return figures that it reports.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody imports it
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ASSUMING", "LOOPS", "batches", "run"]

WORDS, TAGS = 11, 5
Batch = tuple[Tensor, Tensor]

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

IGNORED = -100


"""

LOOPS = {
    "modulo_from_one": """
def train(model, loader, optimizer, steps):
    criterion = nn.CrossEntropyLoss(ignore_index=IGNORED)
    for i, (x, y) in enumerate(loader, 1):
        loss = criterion(model(x).flatten(0, 1), y.flatten()) / steps
        loss.backward()
        if i % steps == 0 or i == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
    "in_place": """
def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader):
        logits = model(x)
        loss = F.cross_entropy(
            logits.flatten(0, 1),
            y.flatten(),
            ignore_index=-100,
        )
        loss /= steps
        loss.backward()
        if (i + 1) % steps == 0 or i == len(loader) - 1:
            nn.utils.clip_grad_norm_(model.parameters(), 1e9)
            optimizer.step()
            optimizer.zero_grad()
""",
    "reported": """
def train(model, loader, optimizer, steps):
    reported = []
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        reported.append(loss.item())
        loss = loss / steps
        loss.backward()
        reported.append(loss.item())
        reported.append(loss.item() * steps)
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    return reported
""",
    "nested": """
def train(model, loader, optimizer, steps):
    batches = iter(loader)
    for _ in range(len(loader) // steps):
        for _ in range(steps):
            x, y = next(batches)
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
            (loss / steps).backward()
        optimizer.step()
        optimizer.zero_grad()
""",
    "flush_after_the_loop": """
def train(model, loader, optimizer, steps):
    seen = 0
    for x, y in loader:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        loss = torch.div(loss, steps)
        loss.backward()
        seen += 1
        if seen % steps == 0:
            optimizer.step()
            optimizer.zero_grad()
    if seen % steps != 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "reciprocal": """
def train(model, loader, optimizer, steps):
    scale = 1.0 / steps
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        loss = loss * scale
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
    "divided_under_a_condition": """
def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        if steps > 1:
            loss = loss / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
    "two_arms": """
def train(model, loader, optimizer, steps, scaler=None):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        loss = loss / steps
        if scaler is not None:
            scaler.scale(loss).backward()
        else:
            loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            if scaler is not None:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            optimizer.zero_grad()
""",
    "early_continue": """
def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100) / steps
        loss.backward()
        if (i + 1) % steps != 0 and i + 1 != len(loader):
            continue
        optimizer.step()
        optimizer.zero_grad()
""",
    "shared_criterion": """
def train(model, loader, optimizer, steps):
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    reported = []
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x).flatten(0, 1), y.flatten()) / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    with torch.no_grad():
        for x, y in loader:
            reported.append(criterion(model(x).flatten(0, 1), y.flatten()).item())
    return reported
""",
    "shared_function": """
def token_loss(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)


@torch.no_grad()
def evaluate(model, loader):
    return [token_loss(model, x, y).item() for x, y in loader]


def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader):
        loss = token_loss(model, x, y)
        (loss / steps).backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    return evaluate(model, loader)
""",
    "masked_mean": """
def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader):
        mask = y.ne(-100)
        losses = F.cross_entropy(model(x).flatten(0, 1), y.clamp(min=0).flatten(), reduction="none")
        loss = (losses * mask.flatten()).sum() / mask.sum()
        loss = loss / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
    "selected_mean": """
def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader):
        mask = y.ne(-100).flatten()
        losses = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="none")
        loss = losses[mask].mean()
        (loss / steps).backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
    "alias": """
def train(model, loader, optimizer, steps):
    reported = []
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        scaled_loss = loss / steps
        scaled_loss.backward()
        reported.append(loss.item())
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    return reported
""",
    "two_losses": """
def train(model, loader, optimizer, steps):
    reported = []
    for i, (x, y) in enumerate(loader):
        logits = model(x).flatten(0, 1)
        if i % 2 == 0:
            loss = F.cross_entropy(logits, y.flatten(), ignore_index=-100)
        else:
            keep = y.flatten().ne(-100)
            losses = F.cross_entropy(logits, y.flatten(), ignore_index=-100, reduction="none")
            loss = (losses * keep).sum() / keep.sum().clamp(min=1)
        loss = loss / steps
        loss.backward()
        reported.append(loss.item())
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    return reported
""",
    "in_the_call": """
def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader):
        (F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100) / steps).backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
    "methods": """
class Trainer:
    def __init__(self, model, optimizer, steps):
        self.model, self.optimizer, self.steps = model, optimizer, steps
        self.criterion = nn.CrossEntropyLoss(ignore_index=-100)
        self.seen = 0

    def microbatch(self, x, y):
        loss = self.criterion(self.model(x).flatten(0, 1), y.flatten())
        loss = loss / self.steps
        loss.backward()
        self.seen += 1
        if self.seen % self.steps == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()


def train(model, loader, optimizer, steps):
    trainer = Trainer(model, optimizer, steps)
    for x, y in loader:
        trainer.microbatch(x, y)
""",
    "held_in_a_wrapper": """
def scaled(loss_function, factor):
    def wrapper(*args, **kwargs):
        return loss_function(*args, **kwargs) / factor

    return wrapper


def token_loss(logits, y):
    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100)


class Trainer:
    def __init__(self, model, optimizer, steps):
        self.model, self.optimizer, self.steps = model, optimizer, steps
        self.loss_function = scaled(token_loss, steps)

    def evaluate(self, loader):
        return [self.loss_function(self.model(x), y).item() for x, y in loader]

    def fit(self, loader):
        for i, (x, y) in enumerate(loader, 1):
            loss = self.loss_function(self.model(x), y)
            loss.backward()
            if i % self.steps == 0 or i == len(loader):
                self.optimizer.step()
                self.optimizer.zero_grad()


def train(model, loader, optimizer, steps):
    Trainer(model, optimizer, steps).fit(loader)
""",
    "a_method_called_train": """
class Trainer:
    def __init__(self, model, optimizer, steps):
        self.model, self.optimizer, self.steps = model, optimizer, steps

    def compute_loss(self, model, x, y):
        logits = model(x)
        return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100)

    def training_step(self, model, x, y):
        model.train()
        loss = self.compute_loss(model, x, y)
        if self.steps > 1:
            loss = loss / self.steps
        loss.backward()
        return loss.detach()

    def train(self, loader):
        for i, (x, y) in enumerate(loader, 1):
            self.training_step(self.model, x, y)
            if i % self.steps == 0 or i == len(loader):
                self.optimizer.step()
                self.optimizer.zero_grad()


def train(model, loader, optimizer, steps):
    Trainer(model, optimizer, steps).train(loader)
""",
    "a_function_for_each_microbatch": """
def step_backward(model, batch, steps):
    x, y = batch
    logits = model(x)
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=IGNORED)
    loss = loss / steps
    loss.backward()
    return loss.item() * steps


def train(model, loader, optimizer, steps):
    reported = []
    for i, batch in enumerate(loader, 1):
        reported.append(step_backward(model, batch, steps))
        if i % steps == 0 or i == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    return reported
""",
    "a_function_for_each_microbatch_of_a_window": """
def step_backward(model, x, y, steps):
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
    (loss / steps).backward()
    return loss.detach()


def train(model, loader, optimizer, steps):
    batches = iter(loader)
    for _ in range(len(loader) // steps):
        for _ in range(steps):
            x, y = next(batches)
            step_backward(model, x, y, steps)
        optimizer.step()
        optimizer.zero_grad()
""",
    "decorated": """
def averaged(loss_function):
    def wrapper(logits, y, steps):
        return loss_function(logits, y, steps) / steps

    return wrapper


@averaged
def token_loss(logits, y, steps):
    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-100)


def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader, 1):
        loss = token_loss(model(x), y, steps)
        loss.backward()
        if i % steps == 0 or i == len(loader):
            optimizer.step()
            optimizer.zero_grad()
""",
}
#: Loops whose fix assumes something.
ASSUMING = {"a_function_for_each_microbatch", "a_function_for_each_microbatch_of_a_window"}
#: Loops that step whole windows only.
WHOLE = {"nested", "methods", "a_function_for_each_microbatch_of_a_window"}


def batches(count: int = 10) -> list[Batch]:
    """Microbatches with very uneven numbers of targets; the fourth has none."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for position in range(count):
        length = int(torch.randint(2, 9, (), generator=generator))
        x = torch.randint(WORDS, (2, length), generator=generator)
        y = torch.where(torch.rand(2, length, generator=generator) < 0.5, x % TAGS, -100)
        made.append((x, torch.full_like(y, -100) if position == 3 else y))
    return made


def run(source: str, steps: int, loader: list[Batch]) -> tuple[list[float], list[float]]:
    """The relative error of each step's gradient, and what the loop reported.

    Raises:
        AssertionError: the loop stepped more or less often than there are windows.
    """
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(WORDS, 6), nn.Tanh(), nn.Linear(6, TAGS)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    scope: dict[str, Any] = {}
    exec(compile(source if "import" in source else HEAD + source, "loop", "exec"), scope)
    windows = [loader[start : start + steps] for start in range(0, len(loader), steps)]
    errors: list[float] = []
    hook = register_optimizer_step_post_hook(_watch(model, windows, errors))
    try:
        reported = scope["train"](model, loader, optimizer, steps)
    finally:
        hook.remove()
    return errors, reported or []


def _watch(model: nn.Module, windows: list[list[Batch]], errors: list[float]) -> Callable[..., None]:
    parameters = list(model.parameters())

    def hook(*_: object) -> None:
        window = windows[len(errors)]
        total = sum(
            F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100, reduction="sum") for x, y in window
        )
        assert isinstance(total, Tensor)
        items = sum(int(y.ne(-100).sum()) for _, y in window)
        wanted = torch.cat([g.flatten() for g in torch.autograd.grad(total / max(items, 1), parameters)])
        got = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        error = float((got - wanted).norm() / (wanted.norm() or 1.0))
        errors.append(error if math.isfinite(error) else math.inf)

    return hook
