"""Verdicts on gradients whose relation to the reference is known."""

from __future__ import annotations

import math

import pytest
import torch

from gafixer.parity.figures import FLOOR, Held, Verdict, compare
from gafixer.parity.reference import Gradient, Witness

MEANS = (torch.tensor([1.0, 0.0], dtype=torch.float64), torch.tensor([0.0, 1.0], dtype=torch.float64))
ITEMS = (3.0, 1.0)
RIGHT = (3 * MEANS[0] + MEANS[1]) / 4


def facts(*, depends: bool = False, weighted: torch.Tensor | None = RIGHT, reference: torch.Tensor = RIGHT) -> Witness:
    return Witness(
        reference=Gradient(2.0, reference),
        weighted=None if weighted is None else Gradient(2.0, weighted),
        microbatch_means=tuple(Gradient(2.0, mean) for mean in MEANS),
        terms=tuple((n,) for n in ITEMS),
        depends_on_batch=depends,
        random=False,
    )


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (RIGHT, Verdict.PARITY),
        (RIGHT * (1 + 0.5 * FLOOR), Verdict.PARITY),
        (RIGHT * (1 + 2 * FLOOR), Verdict.SCALED),
        (RIGHT * 4, Verdict.SCALED),
        (MEANS[0] + MEANS[1], Verdict.SUM_OF_MEANS),
        ((MEANS[0] + MEANS[1]) / 2, Verdict.MEAN_OF_MEANS),
        (torch.tensor([1.0, -1.0], dtype=torch.float64), Verdict.WEIGHTS),
        (torch.zeros(2, dtype=torch.float64), Verdict.SCALED),
        (RIGHT * math.nan, Verdict.NOT_FINITE),
        (-RIGHT, Verdict.WEIGHTS),
    ],
)
def test_verdict(found: torch.Tensor, verdict: Verdict) -> None:
    assert compare(found, facts()).verdict is verdict


def test_ratio_cosine_and_error() -> None:
    figures = compare(RIGHT * 4, facts(), logged=8.0)
    assert figures.ratio == pytest.approx(4)
    assert figures.cosine == pytest.approx(1)
    assert figures.error == pytest.approx(3)
    assert not figures.logged_ok
    assert compare(RIGHT, facts(), logged=2.0).logged_ok


def test_the_bound_is_ten_times_what_rounding_costs_exact_weights() -> None:
    rounded = RIGHT * (1 + 1e-5)
    assert compare(RIGHT, facts(weighted=rounded)).bound == pytest.approx(1e-4, rel=1e-3)
    assert compare(RIGHT, facts()).bound == FLOOR


def test_batch_statistics_move_the_mark_only_where_samples_see_each_other() -> None:
    other = torch.tensor([1.0, 1.0], dtype=torch.float64)
    assert compare(other, facts(depends=True, weighted=other)).held is Held.WEIGHTED
    assert compare(other, facts(depends=True, weighted=other)).ok
    independent = compare(other, facts(depends=False, weighted=other))
    assert independent.held is Held.REFERENCE
    assert not independent.ok


def test_a_window_without_a_gradient_proves_nothing() -> None:
    nothing = torch.zeros(2, dtype=torch.float64)
    assert compare(nothing, facts(reference=nothing, weighted=nothing)).verdict is Verdict.NO_GRADIENT
