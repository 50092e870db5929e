"""Parity for people's own training steps.

def test_the_step_has_parity(assert_parity):
assert_parity(train_window, batches, model=model, loss=mean_loss)
"""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gafixer.parity.drive import Driven, drive_trainer
from gafixer.parity.figures import Figures, compare
from gafixer.parity.reference import flat, witness
from gafixer.parity.windows import Window, copy_of, join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gafixer.parity.windows import Microbatch

__all__ = ["ParityError", "assert_parity", "check"]


class ParityError(AssertionError):
    """The step's gradient is not its window's; `figures` says how far off it is."""

    def __init__(self, figures: Figures) -> None:
        self.figures = figures
        super().__init__(
            f"{figures.meaning}\n"
            f"  norm ratio {figures.ratio:.6g}, cosine {figures.cosine:.6f}, "
            f"relative error {figures.error:.2e} (bound {figures.bound:.2e})"
        )


@dataclass(slots=True)
class _Steps:
    """A hook on all optimizers: the gradients of a model's parameters at each of their steps."""

    parameters: list[nn.Parameter]
    seen: list[torch.Tensor] = field(default_factory=list)

    def __call__(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        ours = {id(p) for p in self.parameters}
        if not any(id(p) in ours for group in optimizer.param_groups for p in group["params"]):
            return None
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if closure is None:
            self._take()
            return None
        # The last backward happens inside of the step: Lightning trains so.
        return args[:1], {**kwargs, "closure": self._after(closure)}

    def _after(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        fresh = True

        def run() -> Any:
            nonlocal fresh
            result = closure()
            if fresh:  # an optimizer may call it again and again
                self._take()
            fresh = False
            return result

        return run

    def _take(self) -> None:
        self.seen.append(flat([p.grad for p in self.parameters], self.parameters))


@contextlib.contextmanager
def _restored(model: nn.Module) -> Iterator[None]:
    """Weights, buffers and mode as they were; no gradients left."""
    state, mode = copy.deepcopy(model.state_dict()), model.training
    model.zero_grad(set_to_none=True)
    try:
        yield
    finally:
        model.load_state_dict(state)
        model.train(mode)
        model.zero_grad(set_to_none=True)


def _caught(step: Callable[[Sequence[Microbatch]], Any], model: nn.Module, window: Window) -> Driven:
    """Run the step and take the gradient that its optimizer saw, or that it left behind."""
    steps = _Steps([p for p in model.parameters() if p.requires_grad])
    hook = register_optimizer_step_pre_hook(steps)
    try:
        told = step([copy_of(m) for m in window.microbatches])
    finally:
        hook.remove()
    if len(steps.seen) > 1:
        raise ValueError(f"the step made {len(steps.seen)} optimizer steps: give it the batches of one window")
    if not steps.seen and all(p.grad is None for p in steps.parameters):
        raise ValueError("the step made no optimizer step and left no gradients on the model's parameters")
    vector = steps.seen[0] if steps.seen else flat([p.grad for p in steps.parameters], steps.parameters)
    return Driven(vector, _logged(told))


def _logged(told: Any) -> float | None:
    """What the step returned, where it is a number."""
    match told:
        case bool():
            return None
        case int() | float():
            return float(told)
        case torch.Tensor() if told.numel() == 1:
            return float(told.detach())
        case _:
            return None


def check(
    step: Callable[[Sequence[Microbatch]], Any] | nn.Module,
    batches: Sequence[Microbatch],
    *,
    model: nn.Module | None = None,
    loss: Callable[[Any, dict[str, Any]], Any] | None = None,
    whole: Microbatch | None = None,
) -> Figures:
    """The figures of one training step over a window.

    Args:
        step: trains `model` on the batches of one window: backward for each, one optimizer step at the end (or none,
            with the gradients left on the parameters). What it returns, if it is a number, counts as its logged loss.
            A model alone is trained by the installed Transformers' `Trainer`.
        batches: the microbatches, each a mapping; uneven ones tell most. Every model value is put back afterwards.
        model: the model that is trained.
        loss: `loss(model, batch)`, the plain mean over a batch's items. `model(**batch)`'s own loss by default.
        whole: the window as one batch, where the microbatches are padded to different lengths.

    Raises:
        ValueError: where the batches make no common batch and `whole` is not given, or the step does not make exactly
            one optimizer step.
    """
    trained = step if isinstance(step, nn.Module) else model
    if trained is None:
        raise ValueError("say which model the step trains: model=...")
    window = _window(batches, whole)
    forward = None if loss is None else (lambda batch: loss(trained, batch))
    with _restored(trained):
        trained.train()
        facts = witness(trained, window, forward)
        driven = drive_trainer(trained, window) if isinstance(step, nn.Module) else _caught(step, trained, window)
    if facts.random:
        raise ValueError("two forwards of the same batch differ: switch off dropout and other randomness first")
    return compare(driven.vector, facts, driven.logged)


def _window(batches: Sequence[Microbatch], whole: Microbatch | None) -> Window:
    if whole is not None:
        return _Joined(tuple(batches), whole)
    try:
        join(tuple(batches))
    except ValueError as error:
        raise ValueError(f"{error}; give the window as one batch: whole=...") from error
    return Window(tuple(batches))


@dataclass(frozen=True, slots=True)
class _Joined(Window):
    """A window whose one batch was given, since its microbatches have shapes of their own."""

    together: Microbatch

    def whole(self) -> Microbatch:
        return self.together


def assert_parity(
    step: Callable[[Sequence[Microbatch]], Any] | nn.Module,
    batches: Sequence[Microbatch],
    *,
    model: nn.Module | None = None,
    loss: Callable[[Any, dict[str, Any]], Any] | None = None,
    whole: Microbatch | None = None,
) -> Figures:
    """`check`, and an assertion that the step meets the reference.

    Raises:
        ParityError: where it doesn't, with what the figures mean.
    """
    figures = check(step, batches, model=model, loss=loss, whole=whole)
    if not figures.ok:
        raise ParityError(figures)
    return figures
