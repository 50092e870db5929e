"""One training step of a Trainer: weigh the loss that `compute_loss` returns, and hand exactly that to backward.

For the time of the step `compute_loss` and the accelerator's `backward` are shadowed on their instances, so every
override is seen as it runs. Whatever a release does between the two (divide, or not) and whatever Accelerate does
after is cancelled.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gafixer.patch import flags, messages, objects
from gafixer.patch.calls import Call, Shadows, backward_divisor, derives, is_compiled, like
from gafixer.patch.observe import LossContract, Observation, averaged, observe, reweigh
from gafixer.patch.record import LossCall, Recorder, recording
from gafixer.patch.weigh import Plan, plan, reference_total, scaled
from gafixer.patch.window import MicrobatchTally, Window

if TYPE_CHECKING:
    from gafixer.patch.items import ItemRule

__all__ = ["Book", "Step"]

LOOKS = 8
"""Microbatches that may leave a contract open before it is taken as it is."""


@dataclass(slots=True)
class Book:
    """What is known of one Trainer: its windows, the contracts of its losses, the rules that all ranks count."""

    windows: list[Window] = field(default_factory=list)
    """The open window, last; where windows are read ahead, those before it that may not be through."""

    reads_ahead: bool = False
    contracts: dict[object, LossContract] = field(default_factory=dict)
    looks: dict[object, int] = field(default_factory=dict)
    agreed: tuple[ItemRule, ...] | None = None
    refusing: set[type] = field(default_factory=set)
    """Heads whose forward failed on the count."""

    own_ranks: set[object] = field(default_factory=set)
    """Losses that never came through the Trainer's own `compute_loss`: who divides there sees to the rank factor."""

    step: Step | None = None
    refusal: str | None = None
    """Why the open window's steps are left as they are."""

    def find(self, inputs: object) -> tuple[Window, int] | None:
        """The window that a microbatch is of, and its place there."""
        for window in self.windows:
            place = window.place(inputs)
            if place is not None:
                return window, place
        return None


class Step:
    """The training step of one microbatch. Use as a context manager around the Trainer's own `training_step`."""

    def __init__(self, trainer: Any, book: Book, window: Window, place: int) -> None:
        self.trainer = trainer
        self.book = book
        self.window = window
        self.tally = MicrobatchTally(window, place)
        self.weighed: Tensor | None = None
        self._shadows = Shadows()
        self._through_trainer = False
        self._obeying = False
        self._hands_count = True
        self._recorder: Recorder | None = None

    def __enter__(self) -> Step:
        self._shadows.put(self.trainer, "compute_loss", self._compute_loss(self.trainer.compute_loss))
        accelerator = self.trainer.accelerator
        self._shadows.put(accelerator, "backward", self._backward(accelerator, accelerator.backward))
        self.book.step = self
        return self

    def __exit__(self, *raised: object) -> None:
        self.book.step = None
        self._shadows.restore()

    def reported(self, returned: Any) -> Any:
        """The loss to log: this microbatch's part of the window's true loss."""
        return returned if self.weighed is None else self.weighed.detach()

    # The two shadows

    def _compute_loss(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compute_loss(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if self.weighed is not None:
                messages.once(
                    self.trainer, "its training_step calls compute_loss twice; the second loss is left as it is"
                )
                return original(model, inputs, *args, **kwargs)
            call = Call(original, model, inputs, args, kwargs)
            loss, outputs = self._obeyed(call) or self._weighed(call)
            self.weighed = loss
            if hasattr(type(self.trainer), "loss_is_scaled_for_ga"):
                self._shadows.put(self.trainer, "loss_is_scaled_for_ga", True)
            return self.weighed if outputs is None else (self.weighed, *outputs)

        return compute_loss

    def _backward(self, accelerator: Any, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(loss: Tensor, **kwargs: Any) -> Any:
            ours = self.weighed
            if ours is None or not derives(loss, ours):
                messages.once(
                    self.trainer,
                    "its training_step changes the loss before backward; only Accelerate's share is undone",
                )
                ours = loss
            divisor = backward_divisor(accelerator, kwargs)
            # DeepSpeed takes the very tensor that its engine returned for one that it has yet to divide.
            another = divisor != 1 or accelerator.distributed_type.value == "DEEPSPEED"
            return original(ours * divisor if another else ours, **kwargs)

        return backward

    # Obeying, observing and weighing

    def _obeyed(self, call: Call) -> tuple[Tensor, tuple[Any, ...] | None] | None:
        """The loss as the user's flags say it is; None where they say nothing."""
        scaled_already = flags.user_says_scaled(self.trainer, call.count)
        if scaled_already is None:
            return None
        self._obeying = True
        loss, outputs = call.run(call.count)
        self._gather(None)
        return (loss if scaled_already else loss / len(self.window.batches)), outputs

    def _weighed(self, call: Call) -> tuple[Tensor, tuple[Any, ...] | None]:
        key = self._key(call)
        contract = self.book.contracts.get(key)
        if contract is None:
            return self._observed(key, call)
        self._gather(contract)
        chosen = plan(contract, self.tally, self._counted_ranks(key))
        if chosen is not None:
            return self._planned(call, contract, chosen)
        if is_compiled(call.model):
            messages.once(
                self.trainer,
                "a compiled head with several terms can't be seen into: its first term weighs the whole loss",
            )
            return self._planned(call, contract, _first_plan(contract, self.tally))
        return self._observed(key, call, contract)

    def _planned(self, call: Call, contract: LossContract, chosen: Plan) -> tuple[Tensor, tuple[Any, ...] | None]:
        self._hands_count = contract.counted
        count = call.count if chosen.count is None else like(call.count, chosen.count, self.window.device)
        loss, outputs = call.run(count)
        return scaled(loss, chosen.divisor), outputs

    def _observed(
        self, key: object, call: Call, contract: LossContract | None = None
    ) -> tuple[Tensor, tuple[Any, ...] | None]:
        """Run under the recorder. A known contract only lacks its shares.

        An open one is read anew and kept once settled.
        """
        batch = dict(call.inputs) if isinstance(call.inputs, Mapping) else {}
        handed = (
            None
            if call.count is None
            else torch.as_tensor(call.count, device=self.window.device).detach().float().requires_grad_()
        )
        (loss, outputs), calls = self._recorded(call, handed)
        if not loss.requires_grad or loss.dim():
            return loss, outputs
        seen = None if contract is None or contract.counted else reweigh(loss, calls, contract)
        if seen is None:
            seen = observe(loss, calls, handed, batch)
            if not (self._through_trainer or seen.contract.counted) and flags.keeps_its_scale(call.original):
                messages.once(self.trainer, "its loss is averaged over microbatches, as it would be", logging.INFO)
                seen = averaged(seen)
            elif self.window.ranks > 1 and objects.source(batch) is not None:
                messages.once(call.bare, "its objects are counted over one rank only: microbatches weigh the same")
                seen = averaged(seen)
            elif not seen.contract.terms and seen.contract.settled:
                messages.once(call.bare, "no loss call on the batch's targets was seen: samples weigh it", logging.INFO)
            self.book.looks[key] = looks = self.book.looks.get(key, 0) + 1
            if seen.contract.settled or looks >= LOOKS:
                self.book.contracts[key] = seen.contract
        if not self._through_trainer:
            self.book.own_ranks.add(key)
        self._gather(seen.contract)
        return self._total(seen, None if handed is None else float(handed.detach()), key), outputs

    def _total(self, seen: Observation, handed: float | None, key: object) -> Tensor:
        ranks = self._counted_ranks(key)
        chosen = plan(seen.contract, self.tally, ranks)
        if chosen is not None and not seen.contract.counted:
            return scaled(seen.loss, chosen.divisor)
        return reference_total(seen, self.tally, ranks, handed)

    def _recorded(
        self, call: Call, handed: Tensor | None
    ) -> tuple[tuple[Tensor, tuple[Any, ...] | None], list[LossCall]]:
        self._hands_count = type(call.bare) not in self.book.refusing
        before = dict(call.inputs) if isinstance(call.inputs, Mapping) else None
        try:
            with recording(handed) as recorder:
                self._recorder = recorder
                return call.run(recorder.count), recorder.calls
        except (TypeError, ValueError) as error:
            if not self._hands_count or "num_items_in_batch" not in str(error):
                raise
            messages.once(
                self.trainer, f"{type(call.bare).__name__} fails on num_items_in_batch: it is kept away from it"
            )
            self.book.refusing.add(type(call.bare))
            if before is not None:
                call.inputs.update(before)  # what compute_loss may have popped
            return self._recorded(call, handed)
        finally:
            self._recorder = None

    def _gather(self, contract: LossContract | None) -> None:
        if self.tally.place != self.window.opening or self.window.gathered:
            return
        self.window.gathered = True
        rules = () if contract is None else contract.rules
        self.book.agreed = self.window.gather(rules, self.book.agreed)
        before = self.window.before
        if before is None or not rules:
            return
        kept = before.total(rules[0])
        if kept and (now := self.window.total(rules[0])):
            grads = [p.grad for p in self.trainer.model.parameters() if p.grad is not None]
            torch._foreach_mul_(grads, kept / now)

    def _counted_ranks(self, key: object) -> int:
        return 1 if key in self.book.own_ranks else self.window.ranks

    def _key(self, call: Call) -> object:
        trainer = self.trainer
        head = call.bare
        config = getattr(head, "config", None)
        return (
            type(trainer),
            getattr(trainer, "compute_loss_func", None),
            trainer.label_smoother is not None,
            type(head),
            getattr(config, "problem_type", None),
            flags.shape_of(call.inputs),
            call.count is None,
        )

    # The Trainer's own compute_loss, when the step comes through it

    @contextlib.contextmanager
    def trainer_loss(self) -> Iterator[None]:
        """Keep the rank factor, and the count where nothing used it, out of the Trainer's own `compute_loss`."""
        self._through_trainer = True
        if self._obeying:
            yield
            return
        trainer = self.trainer
        with Shadows() as shadows:
            if not self._hands_count and getattr(trainer, "model_accepts_loss_kwargs", False):
                shadows.put(trainer, "model_accepts_loss_kwargs", False)
            if getattr(trainer.args, "average_tokens_across_devices", False):
                shadows.put(trainer.args, "average_tokens_across_devices", False)
            if trainer.label_smoother is not None:
                shadows.put(trainer, "label_smoother", self._smoother(trainer.label_smoother))
            yield

    def _smoother(self, original: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Transformers' label smoothing is a mean by hand over the labels: record it as one."""

        def smoother(outputs: Any, labels: Tensor, shift_labels: bool = False, **_count: Any) -> Tensor:
            loss = original(outputs, labels, shift_labels) if shift_labels else original(outputs, labels)
            if self._recorder is not None:
                target = labels[..., 1:] if shift_labels else labels
                self._recorder.calls.append(LossCall(loss, target, "mean", ignored=original.ignore_index))  # type: ignore[attr-defined]
            return loss

        return smoother


def _first_plan(contract: LossContract, tally: MicrobatchTally) -> Plan:
    first = LossContract(contract.terms[:1], None, contract.calls, True)
    chosen = plan(first, tally, tally.ranks)
    return chosen if chosen is not None else Plan(float(len(tally.window.batches)))
