"""The window that a Trainer is in: its microbatches and their counts, over all ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gafixer.patch import messages
from gafixer.patch.items import MICROBATCHES, SAMPLES, ItemRule, count, wide_float

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MicrobatchTally", "Window"]


class Window:
    """The microbatches up to the next optimizer step on this rank, and the totals over `ranks` ranks.

    Totals come from one collective per window, made at `opening`, its first new microbatch: ranks are sure to meet
    there and nowhere else.
    """

    def __init__(
        self, batches: Sequence[object], ranks: int, device: torch.device, before: Window | None = None
    ) -> None:
        """`before` is a window that its epoch's end cut off, and which these microbatches complete."""
        self.before = before
        self.opening = 0 if before is None else len(before.batches)
        self.batches: Sequence[object] = batches if before is None else [*before.batches, *batches]
        self.ranks = ranks
        self.device = device
        self.gathered = False
        """Whether this rank met the others: once per window, however often it looks at a loss."""
        self._locals: dict[ItemRule, list[float]] = {}
        self._totals: dict[ItemRule, float] = {}

    def place(self, inputs: object) -> int | None:
        """Which microbatch `inputs` is; None for one that isn't of this window."""
        for place in range(self.opening, len(self.batches)):
            if self.batches[place] is inputs:
                return place
        return None

    def counts(self, rule: ItemRule) -> list[float]:
        """Items of every microbatch of this rank; 0 for one that lacks what the rule reads."""
        if rule not in self._locals:
            self._locals[rule] = _numbers([_count_or_zero(rule, batch) for batch in self.batches])
        return self._locals[rule]

    def total(self, rule: ItemRule) -> float | None:
        """Items of the window; None for a rule that came up too late to be gathered."""
        if self.ranks == 1:
            return sum(self.counts(rule))
        return self._totals.get(rule)

    def gather(self, rules: Sequence[ItemRule], agreed: tuple[ItemRule, ...] | None) -> tuple[ItemRule, ...] | None:
        """Sum the counts over ranks. Returns the rules that all ranks now count; hand them in at the next window.

        Every rank calls this once per window. A rank that met a new rule says so in the first reduction, and all of
        them then agree on a new list.
        """
        if self.ranks == 1:
            return None
        wanted = tuple(dict.fromkeys((MICROBATCHES, SAMPLES, *rules)))
        if agreed is not None:
            news = float(any(rule not in agreed for rule in wanted))
            sums = self._reduce([news, *(sum(self.counts(rule)) for rule in agreed)])
            if not sums[0]:
                self._totals = dict(zip(agreed, sums[1:], strict=True))
                return agreed
            wanted = tuple(dict.fromkeys((*agreed, *wanted)))
        every: list[Any] = [None] * self.ranks
        torch.distributed.all_gather_object(every, wanted)
        agreed = tuple(dict.fromkeys(rule for rank in every for rule in rank))
        self._totals = dict(zip(agreed, self._reduce([sum(self.counts(r)) for r in agreed]), strict=True))
        return agreed

    def _reduce(self, values: list[float]) -> list[float]:
        sums = torch.tensor(values, dtype=wide_float(self.device), device=self.device)
        torch.distributed.all_reduce(sums)
        return [float(value) for value in sums.tolist()]


@dataclass(frozen=True, slots=True)
class MicrobatchTally:
    """The counts of the microbatch at `place` of `window`.

    A rule that the window could not gather falls back to samples.
    """

    window: Window
    place: int

    @property
    def ranks(self) -> int:
        """Ranks that the totals go over."""
        return self.window.ranks

    def local(self, rule: ItemRule) -> float:
        """Items of this microbatch."""
        return self.window.counts(self._gathered(rule))[self.place]

    def total(self, rule: ItemRule) -> float:
        """Items of the window, on all ranks."""
        total = self.window.total(self._gathered(rule))
        assert total is not None
        return total

    def _gathered(self, rule: ItemRule) -> ItemRule:
        if self.window.total(rule) is not None:
            return rule
        messages.once("window", f"{rule} came up after ranks had met: this microbatch is weighed by samples")
        return SAMPLES


def _count_or_zero(rule: ItemRule, batch: object) -> Tensor | float:
    try:
        return count(rule, batch)
    except KeyError:
        return 0.0


def _numbers(counts: list[Tensor | float]) -> list[float]:
    """All of them on the host, with one wait for the device."""
    tensors = [c for c in counts if isinstance(c, Tensor)]
    if not tensors:
        return [float(c) for c in counts]
    values = iter(torch.stack(tensors).tolist())
    return [float(next(values) if isinstance(c, Tensor) else c) for c in counts]
