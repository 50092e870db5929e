"""What a training step's gradient is worth against the reference."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from gafixer.parity.reference import Gradient, Witness

__all__ = ["FLOOR", "SLACK", "Figures", "Held", "Verdict", "compare", "relative_error"]

SLACK = 10.0  # times the error of exactly weighted microbatches: what an exact method may lose to rounding
FLOOR = 1e-6
# Verdicts other than parity name the nearest cause, and weighted microbatches that are further than this from the
# reference are another gradient, not rounding: this, or a few roundings of a coarser number.
_SAME = 1e-3
_ROUNDINGS = 8
_ALIGNED = 0.9999  # a cosine above this is a matter of scale alone


class Held(enum.Enum):
    """What the step was held to."""

    REFERENCE = "reference"
    WEIGHTED = "weighted microbatches"


class Verdict(enum.Enum):
    """How the step's gradient relates to the right one."""

    PARITY = "parity"
    SUM_OF_MEANS = "sum of means"
    MEAN_OF_MEANS = "mean of means"
    SCALED = "scaled"
    WEIGHTS = "weights"
    NOT_FINITE = "not finite"
    NO_GRADIENT = "no gradient"


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one step.

    `ratio` is the norm of the step's gradient over the norm of the right one, `cosine` the cosine between them, `error`
    the norm of their difference over the norm of the right one, `bound` what the error may be. `loss` is the window's
    true loss, `logged` what the step reported, None where it reported nothing.
    """

    ratio: float
    cosine: float
    error: float
    bound: float
    loss: float
    logged: float | None
    held: Held
    verdict: Verdict

    @property
    def ok(self) -> bool:
        """Whether the step meets the reference."""
        return self.verdict is Verdict.PARITY

    @property
    def logged_ok(self) -> bool:
        """Whether the reported loss is the window's, to the four decimals that older releases round to."""
        return self.logged is None or math.isclose(self.logged, self.loss, rel_tol=1e-3, abs_tol=1e-4)

    @property
    def meaning(self) -> str:
        """What the figures say, in a sentence."""
        match self.verdict:
            case Verdict.PARITY:
                return "the step has the gradient of its whole window"
            case Verdict.SUM_OF_MEANS:
                words = f"microbatch means are added up and divided by nothing: {self.ratio:.4g} times the reference"
                return words if self.cosine > _ALIGNED else f"{words}, cosine {self.cosine:.3f}"
            case Verdict.MEAN_OF_MEANS:
                words = "a mean of means: every microbatch weighs the same, however many items it has"
                return f"{words} (cosine {self.cosine:.3f})"
            case Verdict.SCALED:
                return f"the right direction, {self.ratio:.4g} times the length: a wrong divisor"
            case Verdict.WEIGHTS:
                return f"cosine {self.cosine:.4f}: items are weighed unevenly, on top of a scale of {self.ratio:.4g}"
            case Verdict.NOT_FINITE:
                return "the gradient is not finite"
            case Verdict.NO_GRADIENT:
                return "the window itself has no gradient: nothing can be told"


def relative_error(found: torch.Tensor, right: torch.Tensor) -> float:
    """The norm of the difference over the norm of the right one."""
    return float((found - right).norm() / right.norm().clamp_min(1e-30))


def _cosine(found: torch.Tensor, right: torch.Tensor) -> float:
    lengths = found.norm() * right.norm()
    return float(torch.dot(found, right) / lengths) if lengths > 0 else math.nan


def _held(facts: Witness) -> Held:
    """The reference, but where samples see each other and the weighted microbatches are something else."""
    if facts.weighted is None or not facts.depends_on_batch:
        return Held.REFERENCE
    apart = relative_error(facts.weighted.vector, facts.reference.vector)
    return Held.WEIGHTED if apart > _same(facts) else Held.REFERENCE


def _same(facts: Witness) -> float:
    return max(_SAME, _ROUNDINGS * facts.precision)


def _bound(facts: Witness, held: Held) -> float:
    unknown = SLACK * max(FLOOR, facts.precision)
    if facts.weighted is None or held is Held.WEIGHTED:
        return unknown
    apart = relative_error(facts.weighted.vector, facts.reference.vector)
    # A loss that weighing its means cannot rebuild says nothing about rounding.
    return max(FLOOR, SLACK * apart) if apart <= _same(facts) else unknown


def _verdict(found: torch.Tensor, right: torch.Tensor, facts: Witness, error: float, bound: float) -> Verdict:
    if not torch.isfinite(found).all():
        return Verdict.NOT_FINITE
    if right.norm() == 0:
        return Verdict.NO_GRADIENT
    if error <= bound:
        return Verdict.PARITY
    added = sum((part.vector for part in facts.microbatch_means), torch.zeros_like(right))
    if relative_error(found, added) < _same(facts):
        return Verdict.SUM_OF_MEANS
    if relative_error(found, added / len(facts.microbatch_means)) < _same(facts):
        return Verdict.MEAN_OF_MEANS
    scale = float(torch.dot(found, right) / torch.dot(right, right))
    if scale >= 0 and float((found - scale * right).norm()) <= _same(facts) * float(found.norm()):
        return Verdict.SCALED
    return Verdict.WEIGHTS


def compare(found: torch.Tensor, facts: Witness, logged: float | None = None) -> Figures:
    """The figures of a step whose gradient is `found` (flat, as `reference.flat` makes it)."""
    held = _held(facts)
    right: Gradient = facts.weighted if held is Held.WEIGHTED and facts.weighted is not None else facts.reference
    error = relative_error(found, right.vector)
    bound = _bound(facts, held)
    return Figures(
        ratio=float(found.norm() / right.vector.norm().clamp_min(1e-30)),
        cosine=_cosine(found, right.vector),
        error=error,
        bound=bound,
        loss=right.loss,
        logged=logged,
        held=held,
        verdict=_verdict(found, right.vector, facts, error, bound),
    )
