"""Runs a rule's training script and compares each step's gradients with the reference.

The scripts know nothing of this: `build(...)` makes what `train(...)` takes, and a hook that torch offers for every
optimizer sees the gradients of each window just before the step.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DataLoader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import ModuleType

    from tests.rules.references import Batch, Reference, Run, Window

__all__ = ["RULES", "Trace", "load_script", "run_script", "script_folder"]

RULES = Path(__file__).parents[2] / "rules"


@dataclass(slots=True)
class Trace:
    """What a run did: per optimizer step, the relative error of its gradient and the reference's loss.

    `expected` is the number of steps that the right script takes, `result` what `train` returned, `pieces` what
    `build` made.
    """

    errors: list[float]
    losses: list[float]
    expected: int
    result: Any = None
    pieces: tuple[Any, ...] = ()

    @property
    def worst(self) -> float:
        """The largest relative error; infinite when a gradient is NaN or the number of steps is wrong."""
        if len(self.errors) != self.expected or not all(map(math.isfinite, self.errors)):
            return math.inf
        return max(self.errors)


def script_folder(code: str) -> Path:
    """The folder of a rule."""
    (folder,) = RULES.glob(f"{code}_*")
    return folder


def load_script(code: str, name: str) -> ModuleType:
    """Import bad.py or good.py of a rule, without running its main()."""
    path = script_folder(code) / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{code}_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_script(
    script: ModuleType,
    reference: Reference,
    run: Run,
    *,
    gather: Callable[[list[Batch]], list[Batch]] = lambda batches: batches,
) -> Trace:
    """Train once and watch.

    `gather` turns the batches of this process into those of all of them: one entry a microbatch, each a list.
    """
    arguments = _arguments(script, run)
    torch.manual_seed(0)
    pieces = script.build(**_named(script.build, arguments))
    model = next(piece for piece in pieces if isinstance(piece, nn.Module))
    loader = next(piece for piece in pieces if isinstance(piece, DataLoader))
    batches = list(loader)
    if run.blank is not None:
        batches[run.blank][1].fill_(reference.ignored)
        pieces = tuple(batches if piece is loader else piece for piece in pieces)
    windows = list(reference.windows(gather(batches), arguments))
    trace = Trace(errors=[], losses=[], expected=len(windows), pieces=pieces)
    max_norm = arguments[reference.max_norm] if reference.max_norm else None
    hook = register_optimizer_step_pre_hook(_watch(trace, model, windows, reference.loss, max_norm))
    try:
        trace.result = script.train(*pieces, **_named(script.train, arguments))
    finally:
        hook.remove()
    return trace


def _arguments(script: ModuleType, run: Run) -> dict[str, Any]:
    """The defaults of `build` and `train`, and over them what the run asks for."""
    parameters = [*inspect.signature(script.build).parameters.values()]
    parameters += inspect.signature(script.train).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    assert run.arguments.keys() <= defaults.keys()
    return defaults | dict(run.arguments)


def _named(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    names = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in names}


def _watch(
    trace: Trace,
    model: nn.Module,
    windows: list[Window],
    loss: Callable[[nn.Module, Window], Tensor],
    max_norm: float | None,
) -> Callable[..., None]:
    """A hook that compares the gradients before a step with those of the window that should end there."""
    parameters = list(model.parameters())

    def hook(*_: object) -> None:
        got = _flat(parameter.grad for parameter in parameters)
        if len(trace.errors) >= len(windows):
            trace.errors.append(math.inf)
            return
        value = loss(model, windows[len(trace.errors)])
        want = _flat(torch.autograd.grad(value, parameters))
        if max_norm is not None:
            want = want * min(1.0, max_norm / (float(want.norm()) + 1e-6))
        trace.losses.append(value.item())
        trace.errors.append(float((got - want).norm() / (want.norm() or 1.0)))

    return hook


def _flat(gradients: Iterable[Tensor | None]) -> Tensor:
    kept = [gradient.flatten() for gradient in gradients if gradient is not None]
    return torch.cat(kept)
