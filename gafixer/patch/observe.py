"""Look at what a loss did: which means it is made of, over which items, and whether it used the count it was handed.

A loss is linear in the values of its loss calls. The gradient of the loss in each of them is that call's coefficient,
so one ordinary forward, recorded, shows how every call was normalised: by torch, by hand, by the count, or not at
all.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gafixer.patch import objects
from gafixer.patch.items import (
    MICROBATCHES,
    SAMPLES,
    Batch,
    ItemRule,
    View,
    count,
    match,
    match_queries,
    samples,
)
from gafixer.patch.record import reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.patch.record import LossCall

__all__ = ["Kind", "LossContract", "Observation", "Term", "averaged", "observe", "reweigh"]


class Kind(enum.Enum):
    """How a term is normalised."""

    MEAN = enum.auto()  # over the items of the microbatch
    COUNTED = enum.auto()  # by the count handed over
    SUM = enum.auto()  # by nothing


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a loss. `rule` counts its items; None where no loss call showed what they are.

    `call` is the place of its loss call in the forward, None for what only the count's gradient showed.
    """

    kind: Kind
    rule: ItemRule | None
    call: int | None


@dataclass(frozen=True, slots=True)
class LossContract:
    """What a loss does with every batch of one kind.

    `rest` says over what the remainder is averaged, None where nothing remains. `calls` is the number of loss calls.
    `settled` is False where the microbatch couldn't tell (no items, two rules that agree): look again at the next.
    """

    terms: tuple[Term, ...]
    rest: ItemRule | None
    calls: int
    settled: bool

    @property
    def rules(self) -> tuple[ItemRule, ...]:
        """Every rule that the window has to count."""
        return tuple(dict.fromkeys(r for r in (*(t.rule for t in self.terms), self.rest) if r is not None))

    @property
    def counted(self) -> bool:
        """Whether any of it is divided by the count."""
        return any(term.kind is Kind.COUNTED for term in self.terms)


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """A contract with the tensors that it was read from.

    `shares` belong to `contract.terms` and add up, with `rest`, to `loss`.
    """

    contract: LossContract
    loss: Tensor
    shares: tuple[Tensor, ...]
    rest: Tensor | None


def observe(loss: Tensor, calls: Sequence[LossCall], handed: Tensor | None, batch: Batch) -> Observation:
    """Read the contract of `loss`, a 0-dim tensor in whose graph the `calls` were recorded.

    `handed` is the count that the loss was given: a 0-dim float that requires grad, or None.
    """
    coefficients, by_count = _coefficients(loss, calls, handed)
    terms: list[Term] = []
    shares: list[Tensor] = []
    settled = True
    for place, (call, coefficient) in enumerate(zip(calls, coefficients, strict=True)):
        if coefficient is None:
            continue
        kind, rules = _classify(call, coefficient, handed, batch)
        if kind is None:
            continue
        terms.append(Term(kind, _likeliest(rules, terms), place))
        shares.append((coefficient * call.value).sum())
        settled &= len(rules) <= 1 and _tells(call, coefficient, kind, handed)
    if by_count is not None:
        seen = [share for term, share in zip(terms, shares, strict=True) if term.kind is Kind.COUNTED]
        unseen = by_count - torch.stack(seen).sum() if seen else by_count
        if _matters(unseen, loss, shares):
            terms.append(Term(Kind.COUNTED, None, None))
            shares.append(unseen)
    rest = loss - torch.stack(shares).sum() if shares else loss
    remains = not shares or _matters(rest, loss, shares)
    over = _remainder(batch, MICROBATCHES if shares else SAMPLES)
    if over.view is View.OBJECTS and not count(over, batch):
        settled = False  # without objects nothing shows of the terms that score them
    contract = LossContract(
        tuple(terms),
        over if remains else None,
        len(calls),
        settled and bool(torch.isfinite(loss)) and bool(loss != 0),
    )
    return Observation(contract, loss, tuple(shares), rest if remains else None)


def _remainder(batch: Batch, otherwise: ItemRule) -> ItemRule:
    """Over what the part of a loss is averaged that no loss call shows: over objects, where the batch has some."""
    key = objects.source(batch)
    return otherwise if key is None else ItemRule(key, View.OBJECTS)


def averaged(seen: Observation) -> Observation:
    """The same loss, taken as a mean over microbatches, whatever it is made of."""
    return Observation(LossContract((), MICROBATCHES, seen.contract.calls, True), seen.loss, (), seen.loss)


def reweigh(loss: Tensor, calls: Sequence[LossCall], contract: LossContract) -> Observation | None:
    """The shares of a loss whose contract is known; None where its calls are not the contract's."""
    if len(calls) != contract.calls or any(term.call is None for term in contract.terms):
        return None
    coefficients, _ = _coefficients(loss, calls, None)
    shares = []
    for term in contract.terms:
        assert term.call is not None
        coefficient = coefficients[term.call]
        if coefficient is None:
            return None
        shares.append((coefficient * calls[term.call].value).sum())
    rest = None if contract.rest is None else loss - torch.stack(shares).sum()
    return Observation(contract, loss, tuple(shares), rest)


def _coefficients(
    loss: Tensor, calls: Sequence[LossCall], handed: Tensor | None
) -> tuple[list[Tensor | None], Tensor | None]:
    """The gradient of the loss in each call's value, and the part of the loss that is divided by the count.

    With L = P / N + R that part is P / N = -N dL/dN; both come with their graphs.
    """
    inputs = [call.value for call in calls] + ([] if handed is None else [handed])
    if not inputs:
        return [], None
    with reading():
        grads: list[Tensor | None] = list(torch.autograd.grad(loss, inputs, create_graph=True, allow_unused=True))
    slope = None if handed is None else grads.pop()
    return grads, None if slope is None or handed is None else -handed.detach() * slope


def _classify(
    call: LossCall, coefficient: Tensor, handed: Tensor | None, batch: Batch
) -> tuple[Kind | None, tuple[ItemRule, ...]]:
    """How one call is normalised, and the rules its items may follow; (None, ()) for a call that can't be placed."""
    if objects.source(batch) is not None:
        return _classify_matched(call, batch)
    target, factor = _scored(call, coefficient)
    rules = (SAMPLES,) if call.sequences else _rules(call, target, batch)
    if _depends(coefficient, handed):
        return Kind.COUNTED, rules
    if call.reduction in ("mean", "batchmean"):
        return (Kind.MEAN, rules) if rules else (None, ())
    if factor is None:
        return None, ()
    if rules and math.isclose(factor * float(count(rules[0], batch)), 1.0, rel_tol=1e-4):
        return Kind.MEAN, rules
    if handed is not None and rules and math.isclose(factor * float(handed.detach()), 1.0, rel_tol=1e-4):
        return Kind.COUNTED, rules
    if call.reduction == "none" and math.isclose(factor * call.value.numel(), 1.0, rel_tol=1e-4):
        places = tuple(ItemRule(rule.source, rule.view) for rule in rules[:1])
        return (Kind.MEAN, places) if places else (None, ())
    if math.isclose(factor * samples(batch), 1.0, rel_tol=1e-4) and not (call.sequences and factor == 1.0):
        return Kind.MEAN, (SAMPLES,)
    return (Kind.SUM, rules) if factor == 1.0 else (None, ())


def _classify_matched(call: LossCall, batch: Batch) -> tuple[Kind | None, tuple[ItemRule, ...]]:
    """The same among annotated objects, where what a call scores was matched before: only the classes show."""
    if call.reduction != "mean" or call.classes is None:
        return None, ()
    rules = match_queries(call.target, batch, classes=call.classes, class_weights=call.class_weights)
    return (Kind.MEAN, rules) if rules else (None, ())


def _likeliest(rules: tuple[ItemRule, ...], terms: Sequence[Term]) -> ItemRule | None:
    """The best rule; of several that this batch can't tell apart, one whose source no term before it has."""
    taken = {term.rule.source for term in terms if term.rule is not None}
    return next((rule for rule in rules if rule.source not in taken), rules[0] if rules else None)


def _rules(call: LossCall, target: Tensor, batch: Batch) -> tuple[ItemRule, ...]:
    return match(target, batch, classes=call.classes, ignored=call.ignored, class_weights=call.class_weights)


def _scored(call: LossCall, coefficient: Tensor) -> tuple[Tensor, float | None]:
    """The entries of the target that the loss scores, and the coefficient that they share.

    None where they share none.
    """
    if coefficient.dim() == 0:
        return call.target, float(coefficient.detach())
    if coefficient.shape != call.target.shape:
        return call.target, None
    used = coefficient != 0
    values = coefficient.detach()[used]
    if not values.numel() or not torch.allclose(values, values[0], rtol=1e-4):
        return call.target, None
    return (call.target if bool(used.all()) else call.target[used]), float(values[0])


def _depends(coefficient: Tensor, handed: Tensor | None) -> bool:
    if handed is None or not coefficient.requires_grad:
        return False
    with reading():
        (slope,) = torch.autograd.grad(coefficient.sum(), handed, retain_graph=True, allow_unused=True)
    return slope is not None


def _tells(call: LossCall, coefficient: Tensor, kind: Kind, handed: Tensor | None) -> bool:
    """Whether the call had items, and its coefficient can't be read in two ways.

    Local items and count may be the same.
    """
    if not bool(torch.isfinite(call.value).all()) or not bool((call.value != 0).any()):
        return False
    if handed is None or kind is not Kind.MEAN or call.reduction == "mean":
        return True
    _, factor = _scored(call, coefficient)
    return factor is None or not math.isclose(factor * float(handed.detach()), 1.0, rel_tol=1e-4)


def _matters(part: Tensor, loss: Tensor, shares: Sequence[Tensor]) -> bool:
    """Whether a part is more than the rounding of the sum that it was taken from."""
    if not bool(torch.isfinite(part)):
        return False
    size = float(loss.detach().abs()) + sum(float(share.detach().abs()) for share in shares)
    return float(part.detach().abs()) > 4 * torch.finfo(loss.dtype).eps * size
