"""From what a loss did to what it should count for: the weight of each of its terms in the window.

A term that is a mean over `n` of the window's `N` items is worth n / N of the window's mean, and `ranks` times that
where gradients are averaged over ranks afterwards. Where one weight serves the whole loss, the loss is divided once
and nothing is intercepted; else each term gets its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from gafixer.patch.items import View
from gafixer.patch.observe import Kind, LossContract, Observation, Term

if TYPE_CHECKING:
    from gafixer.patch.items import ItemRule

__all__ = ["Plan", "Tally", "plan", "reference_total", "scaled"]


class Tally(Protocol):
    """The counts of one microbatch and of its window."""

    @property
    def ranks(self) -> int:
        """How many ranks the window's totals and the later averaging of gradients go over."""

    def local(self, rule: ItemRule) -> float:
        """Items of this microbatch."""

    def total(self, rule: ItemRule) -> float:
        """Items of the window."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One weight for the whole loss: divide it by `divisor`, and hand `count` to whoever divides by it."""

    divisor: float
    count: float | None = None


def plan(contract: LossContract, tally: Tally, counted_ranks: int) -> Plan | None:
    """How one weight serves the whole loss; None where its terms need their own.

    `counted_ranks` is the factor that a part divided by the count still lacks: the ranks, or 1 where its author sees
    to that.
    """
    counted = [term for term in contract.terms if term.kind is Kind.COUNTED]
    if not counted:
        divisors = {_divisor(term, tally) for term in contract.terms}
        if contract.rest is not None:
            divisors.add(_mean_divisor(contract.rest, tally))
        return Plan(divisors.pop()) if len(divisors) == 1 else None
    rules = {term.rule for term in counted}
    if len(counted) < len(contract.terms) or len(rules) > 1 or None in rules:
        return None
    (rule,) = rules
    assert rule is not None
    items = max(tally.total(rule), 1.0)
    if contract.rest is None:
        return Plan(1.0 / counted_ranks, items)
    divisor = _mean_divisor(contract.rest, tally)
    return Plan(divisor, items / (counted_ranks * divisor))


def scaled(loss: Tensor, divisor: float) -> Tensor:
    """`loss / divisor`. Infinite for a loss over no items, which is 0 then, whatever it was, and so is its gradient."""
    if math.isinf(divisor):
        return loss.nan_to_num(0.0, 0.0, 0.0) * 0.0
    return loss if divisor == 1.0 else loss / divisor


def reference_total(seen: Observation, tally: Tally, counted_ranks: int, handed: float | None) -> Tensor:
    """The microbatch's part of the window's true loss, each term by its own items."""
    parts = []
    for term, share in zip(seen.contract.terms, seen.shares, strict=True):
        if term.kind is Kind.COUNTED:
            assert handed is not None
            items = handed if term.rule is None else max(tally.total(term.rule), 1.0)
            parts.append(scaled(share, items / (handed * counted_ranks)))
        else:
            parts.append(scaled(share, _divisor(term, tally)))
    if seen.rest is not None and seen.contract.rest is not None:
        parts.append(scaled(seen.rest, _mean_divisor(seen.contract.rest, tally)))
    return torch.stack([part.to(seen.loss.device) for part in parts]).sum()


def _divisor(term: Term, tally: Tally) -> float:
    if term.kind is Kind.SUM or term.rule is None:
        return 1.0 / tally.ranks
    return _mean_divisor(term.rule, tally)


def _mean_divisor(rule: ItemRule, tally: Tally) -> float:
    local, total = tally.local(rule), tally.total(rule)
    if rule.view is View.OBJECTS:
        local, total = max(local, 1.0), max(total, 1.0)
    return total / (local * tally.ranks) if local else math.inf
