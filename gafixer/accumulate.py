"""What rewritten training code may call: divide the gradients of a window by its number of items.

    num_items = 0
    for i, (tokens, labels) in enumerate(loader):
        loss = F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), reduction="sum")
        num_items += labels.ne(-100).sum()
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            divide_gradients(model.parameters(), num_items)
            num_items = 0
            optimizer.step()
            optimizer.zero_grad()

The losses of a window go backward as sums, so that their gradients add up to the gradient of the window's sum; one
division by the window's items makes it the gradient of the window's mean, however the items are spread over
microbatches and ranks. The count may stay a tensor on the device: it is read once per window. Call these before
gradients are clipped and before `unscale_` or after it; both orders are exact.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torch import Tensor

__all__ = [
    "CountedWindows",
    "WithNumItems",
    "divide_gradients",
    "divide_gradients_accelerated",
    "divide_gradients_over_ranks",
    "items_per_rank",
]

#: Accelerate's backends that keep gradients to themselves and step inside backward.
_OUT_OF_REACH = ("DEEPSPEED", "MEGATRON_LM")


def divide_gradients(parameters: Iterable[Tensor], num_items: float | Tensor) -> None:
    """Divide the gradients of one process by `num_items`, the items of its window; by 1 where there are none.

    Gradients may be sparse or sharded (DTensor). `num_items` is a number or a tensor of one element, on any device.

    Raises:
        RuntimeError: no parameter holds a gradient: they were stepped or cleared before.
    """
    _divide(_gradients(parameters), float(num_items))


def divide_gradients_over_ranks(parameters: Iterable[Tensor], num_items: float | Tensor) -> None:
    """Divide gradients that DDP or FSDP averaged over ranks; `num_items` are the items of this rank's window.

    The sum of all ranks' losses over the sum of their items is the average gradient times ranks over all items. Every
    rank must call this, also one whose window is empty of items. Without a process group it is `divide_gradients`.

    Raises:
        RuntimeError: as for `divide_gradients`.
    """
    gradients = _gradients(parameters)
    total = torch.as_tensor(num_items, device=gradients[0].device).clone()
    ranks = 1
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(total)
        ranks = dist.get_world_size()
    _divide(gradients, float(total) / ranks)


def divide_gradients_accelerated(accelerator: Any, parameters: Iterable[Tensor], num_items: float | Tensor) -> None:
    """The same under Accelerate, where ``accelerator.sync_gradients`` says that gradients are whole.

    `Accelerator.backward` divides by ``gradient_accumulation_steps``, which is undone here.

    Raises:
        RuntimeError: as for `divide_gradients`, or a backend keeps its gradients to itself.
    """
    if accelerator.distributed_type in _OUT_OF_REACH:
        raise RuntimeError(f"{accelerator.distributed_type} keeps its gradients to itself: divide the loss instead")
    gradients = _gradients(parameters)
    total = accelerator.reduce(torch.as_tensor(num_items, device=gradients[0].device).clone(), "sum")
    _divide(gradients, float(total) / (accelerator.num_processes * accelerator.gradient_accumulation_steps))


def items_per_rank(num_items: float | Tensor) -> float:
    """The items of all ranks over the number of ranks: what a loss's sum is divided by under averaged gradients.

    Every rank must call this. 1 where no rank has items.
    """
    total = torch.as_tensor(num_items).clone()
    ranks = 1
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(total)
        ranks = dist.get_world_size()
    return float(total) / ranks or 1.0


def _gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    found = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not found:
        raise RuntimeError("no gradients to divide: they were stepped or cleared before")
    return found


def _divide(gradients: list[Tensor], divisor: float) -> None:
    for gradient in gradients:
        gradient.div_(divisor or 1.0)


class WithNumItems:
    """The batches of a loader, each with the number of items per rank in the window of `steps` batches that it is in.

    For what keeps gradients to itself, as DeepSpeed does: the loss of a batch, as a sum, is divided by the number that
    comes with it, and the framework's own division is turned off (``scale_wrt_gas=False``).

        for batch, num_items in WithNumItems(loader, engine.gradient_accumulation_steps(), count):
            loss = cross_entropy(engine(batch), labels, reduction="sum")
            engine.backward(loss / num_items, scale_wrt_gas=False)
            engine.step()

    `count` gives the items of one batch. A window is read when its first batch is asked for, and nothing beyond it: at
    a window's end a sampler's state is what it would be without. A window that the end of an epoch cuts goes on with
    the next epoch's first batches; each of its parts weighs by its length, since the whole count is not known yet. With
    `restarts` each epoch begins a window, and what an epoch leaves over is a window of its own; `start` is the number
    of batches that were drawn before, where training resumes within an epoch. All ranks must draw as many batches.
    `microbatches` is the number of batches in the window at hand, for terms that are means over batches. Everything
    else that the loader has is there, `len` included.
    """

    def __init__(
        self,
        loader: Any,
        steps: int,
        count: Callable[[Any], float | Tensor],
        restarts: bool = False,
        start: int = 0,
    ) -> None:
        self.loader, self.steps, self.count, self.restarts = loader, steps, count, restarts
        self.start = self.done = start
        self.microbatches = steps

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[tuple[Any, float]]:
        batches = iter(self.loader)
        if self.restarts:
            self.done = self.start
        while window := list(itertools.islice(batches, self.steps - self.done % self.steps)):
            num_items = float(sum(self.count(batch) for batch in window))
            if dist.is_initialized():
                total = torch.tensor(num_items, device="cuda" if dist.get_backend() == "nccl" else "cpu")
                dist.all_reduce(total)
                num_items = total.item() / dist.get_world_size()
            self.microbatches = len(window) if self.restarts else self.steps
            num_items = num_items * self.microbatches / len(window) or 1.0
            for batch in window:
                self.done += 1
                yield batch, num_items


class CountedWindows:
    """The batches of a loader that Accelerate prepared, each with the number of items of its window on all processes.

        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for step, ((tokens, labels), num_items) in enumerate(CountedWindows(accelerator, model, loader, count), 1):
            loss = cross_entropy(model(tokens), labels, reduction="sum")
            accelerator.backward(
                loss * accelerator.num_processes * accelerator.gradient_accumulation_steps / num_items
            )
            if step % accelerator.gradient_accumulation_steps == 0 or step == len(loader):
                optimizer.step()
                optimizer.zero_grad()

    A window is as many batches as the accelerator accumulates, or those that an epoch leaves over; it is read when its
    first batch is asked for. `count` gives the items of one batch, as a number or a tensor. Gradients are synchronized
    by a window's last batch only, so do without ``accelerator.accumulate()``, whose flag for the loader's end does not
    go together with reading ahead. Where no process has items the number is 1.
    """

    def __init__(self, accelerator: Any, model: Any, loader: Any, count: Callable[[Any], float | Tensor]) -> None:
        self.accelerator, self.model, self.loader, self.count = accelerator, model, loader, count

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[tuple[Any, Tensor]]:
        accelerator = self.accelerator
        batches = iter(self.loader)
        while window := list(itertools.islice(batches, accelerator.gradient_accumulation_steps)):
            items = torch.as_tensor(sum(self.count(batch) for batch in window), device=accelerator.device)
            num_items = accelerator.gather(items).sum().clamp(min=1)
            for number, batch in enumerate(window, 1):
                with contextlib.nullcontext() if number == len(window) else accelerator.no_sync(self.model):
                    yield batch, num_items
