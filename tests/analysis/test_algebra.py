"""Laws of the loss algebra: whatever it does to an expression, the expression's number stays."""

from __future__ import annotations

import functools
import itertools
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gafixer.analysis import algebra, reductions
from gafixer.analysis.spot import Spot
from gafixer.analysis.values import (
    Atom,
    Choice,
    Const,
    Detached,
    Index,
    Kind,
    Listing,
    Opaque,
    Poly,
    Reduction,
    Sequence,
    Sym,
    Value,
)

HERE = Spot("train.py", 3, 4, 3, 9)
THERE = Spot("train.py", 2, 0, 2, 5)
LOSS = Atom(Kind.LOSS, "cross_entropy", Reduction.MEAN, HERE)
EACH = Atom(Kind.LOSS, "cross_entropy", Reduction.NONE, HERE)

#: What the symbols are worth where a value is reckoned out.
WORTH = {"a": 3.0, "b": 5.0, "n": 7.0, "m": -11.0}
LOSS_WORTH = 13.0

symbols = st.sampled_from([Sym(name) for name in WORTH])
numbers = st.integers(-6, 6).map(Const)
factors = st.one_of(symbols, st.integers(2, 6).map(Const))
leaves = st.one_of(symbols, numbers, st.just(LOSS))


def worth(value: Value) -> float:
    """The number that a value is, with `WORTH` for its symbols."""
    match value:
        case Const(value=int() | float() as literal):
            return float(literal)
        case Sym(key=key):
            return WORTH[key]
        case Atom():
            return LOSS_WORTH
        case Poly(terms=terms):
            return math.fsum(
                term.coefficient
                * (1.0 if term.atom is None else worth(term.atom))
                * math.prod(worth(factor.value) ** factor.power for factor in term.factors)
                for term in terms
            )
        case _:
            raise AssertionError(value)


def divided(value: Value, by: Value) -> Value:
    """``value / by`` at a spot of its own."""
    return algebra.divide(value, by, HERE)


def times(value: Value, by: Value) -> Value:
    """``value * by`` at a spot of its own."""
    return algebra.multiply(value, by, HERE)


def _grown(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    return st.one_of(
        st.builds(algebra.add, inner, inner),
        st.builds(times, inner, inner),
        st.builds(divided, inner, factors),
        st.builds(algebra.negate, inner),
    )


expressions = st.recursive(leaves, _grown, max_leaves=8).filter(lambda value: not isinstance(value, Opaque))


def same(left: Value, right: Value) -> bool:
    """Whether two values are the same number, far more exactly than two different ones could be by chance."""
    return math.isclose(worth(left), worth(right), rel_tol=1e-9, abs_tol=1e-9)


@given(expressions, expressions)
def test_addition(left: Value, right: Value) -> None:
    """A sum is worth its parts, in either order."""
    total = algebra.add(left, right)
    assume(not isinstance(total, Opaque))
    assert math.isclose(worth(total), worth(left) + worth(right), rel_tol=1e-9, abs_tol=1e-9)
    assert same(total, algebra.add(right, left))


@given(expressions, expressions)
def test_multiplication(left: Value, right: Value) -> None:
    """A product is worth its parts, in either order."""
    product = times(left, right)
    assume(not isinstance(product, Opaque))
    assert math.isclose(worth(product), worth(left) * worth(right), rel_tol=1e-9, abs_tol=1e-9)
    assert same(product, times(right, left))


@given(expressions, factors)
def test_division_is_the_inverse_of_multiplication(value: Value, factor: Value) -> None:
    """Both ways round, and in the spelling with a reciprocal."""
    assert math.isclose(worth(divided(value, factor)), worth(value) / worth(factor), rel_tol=1e-9, abs_tol=1e-9)
    assert same(divided(times(value, factor), factor), value)
    assert same(times(divided(value, factor), factor), value)
    assert same(times(value, divided(Const(1), factor)), divided(value, factor))


@given(symbols)
def test_what_cancels_leaves_nothing(factor: Value) -> None:
    """Not even a factor of power nought: rules count divisions."""
    assert divided(times(LOSS, factor), factor) == LOSS
    assert times(divided(LOSS, factor), factor) == LOSS
    assert divided(factor, factor) == Const(1)


@given(expressions, expressions, expressions)
def test_distribution(left: Value, right: Value, factor: Value) -> None:
    """Over sums."""
    whole = times(algebra.add(left, right), factor)
    parts = algebra.add(times(left, factor), times(right, factor))
    assume(not isinstance(whole, Opaque) and not isinstance(parts, Opaque))
    assert same(whole, parts)


@given(expressions)
def test_negation(value: Value) -> None:
    """Twice is never."""
    assert same(algebra.negate(algebra.negate(value)), value)
    nothing = algebra.add(value, algebra.negate(value))
    assume(not isinstance(nothing, Opaque))
    assert worth(nothing) == pytest.approx(0.0, abs=1e-6)


@given(st.lists(symbols, min_size=1, max_size=9), symbols)
def test_alternatives_are_taken_one_by_one(options: list[Value], factor: Value) -> None:
    """An operation on a choice is the choice of the operations; equal ones are one, and there are never too many."""
    choice = algebra.choose(options)
    known = choice.options if isinstance(choice, Choice) else (choice,)
    assert known == tuple(dict.fromkeys(options))[: algebra.MOST_OPTIONS]
    assert divided(choice, factor) == algebra.choose(divided(option, factor) for option in known)
    assert algebra.add(choice, factor) == algebra.choose(algebra.add(option, factor) for option in known)


def test_what_is_not_followed_is_no_alternative() -> None:
    """Unless there is nothing else."""
    assert algebra.choose([Opaque("why"), LOSS]) == LOSS
    assert algebra.choose([Opaque("why")]) == Opaque("why")


@given(expressions, expressions)
def test_alternatives_are_each_worth_one_operand(left: Value, right: Value) -> None:
    """Whatever simplification did."""
    choice = algebra.choose((left, right))
    options = choice.options if isinstance(choice, Choice) else (choice,)
    assert {worth(option) for option in options} == {worth(left), worth(right)}


def test_a_division_remembers_its_place() -> None:
    """And a reciprocal made before, where it was made."""
    by_hand = algebra.divide(LOSS, Sym("n"), HERE)
    assert isinstance(by_hand, Poly)
    assert [(f.spot, f.via) for f in by_hand.terms[0].factors] == [(HERE, None)]
    reciprocal = algebra.divide(Const(1), Sym("n"), THERE)
    precomputed = algebra.multiply(LOSS, reciprocal, HERE)
    assert isinstance(precomputed, Poly)
    assert [(f.spot, f.via, f.power) for f in precomputed.terms[0].factors] == [(HERE, THERE, -1)]


def test_a_literal_divisor_keeps_its_place() -> None:
    """It may be the number of steps."""
    value = algebra.divide(LOSS, Const(4), HERE)
    assert isinstance(value, Poly)
    assert [(f.value, f.power, f.spot) for f in value.terms[0].factors] == [(Const(4), -1, HERE)]


def test_a_small_constant_below_is_no_term() -> None:
    """``/ (count + 1e-8)`` divides by the count."""
    plain = algebra.divide(LOSS, Sym("n"), HERE)
    assert algebra.divide(LOSS, algebra.add(Sym("n"), Const(1e-8)), HERE) == plain


@pytest.mark.parametrize("nothing", [Const(0), Const(0.0), Const("text"), Const(None), Opaque("why")])
def test_no_quotient_by_what_is_no_number(nothing: Value) -> None:
    """The loss becomes opaque, nobody raises."""
    assert isinstance(algebra.divide(LOSS, nothing, HERE), Opaque)


@pytest.mark.parametrize(
    "literal", [10**400, -(10**400), math.inf, -math.inf, math.nan, True, 1e308, 5e-324], ids=lambda n: str(n)[:6]
)
@pytest.mark.parametrize("operation", [algebra.add, times, divided])
def test_numbers_beyond_bounds(literal: float, operation: object) -> None:
    """Whatever Python can read as a number is taken, or is none."""
    assert callable(operation)
    for left, right in itertools.product([LOSS, Sym("n"), Const(literal)], repeat=2):
        assert operation(left, right) is not None


def test_sums_stay_small() -> None:
    """A thousand terms are opaque, and quickly so."""
    many: list[Value] = [Sym(f"s{k}") for k in range(1000)]
    assert isinstance(functools.reduce(algebra.add, many), Opaque)


def test_indices_count_on() -> None:
    """``i + 1`` is an index still."""
    assert algebra.add(Index(1, 0), Const(1)) == Index(1, 1)
    assert algebra.add(Const(2), Index(1, 0)) == Index(1, 2)
    assert algebra.add(Index(1, None), Const(1)) == Index(1, None)


@given(expressions)
def test_figures_stay_figures(value: Value) -> None:
    """What is computed of detached values alone is detached; with a loss in it, it isn't."""
    figure = Detached(value)
    assert isinstance(algebra.divide(figure, Sym("n"), HERE), Detached)
    assert not isinstance(algebra.multiply(LOSS, figure, HERE), Detached)


# -- reductions ------------------------------------------------------------------------------------------------------


def mean(value: Value) -> Value:
    """``value.mean()``."""
    return reductions.reduce(value, Reduction.MEAN, HERE, ())


def total(value: Value) -> Value:
    """``value.sum()``."""
    return reductions.reduce(value, Reduction.SUM, HERE, ())


@pytest.mark.parametrize("how", [Reduction.MEAN, Reduction.SUM])
def test_a_loss_per_item_is_reduced_once(how: Reduction) -> None:
    """A scalar stays what it is."""
    once = reductions.reduce(EACH, how, HERE, ())
    assert isinstance(once, Atom)
    assert once.reduction is how
    assert reductions.reduce(once, Reduction.MEAN, HERE, ()) == once


@given(symbols)
def test_reductions_are_linear(factor: Value) -> None:
    """A number in front stays in front."""
    assert mean(divided(EACH, factor)) == divided(mean(EACH), factor)
    assert total(times(EACH, factor)) == times(total(EACH), factor)
    assert total(algebra.add(EACH, times(EACH, factor))) == algebra.add(total(EACH), times(total(EACH), factor))


@given(st.lists(symbols, min_size=1, max_size=8))
def test_mean_of_a_known_list(items: list[Value]) -> None:
    """Its sum over its length."""
    average = mean(Sequence(tuple(items)))
    assert worth(average) == pytest.approx(sum(map(worth, items)) / len(items))
    assert worth(total(Sequence(tuple(items)))) == pytest.approx(sum(map(worth, items)))


def test_a_mask_says_which_items_count() -> None:
    """As a factor, and as an index."""
    for masked in (times(EACH, Sym("loss_mask")), reductions.select(EACH, Sym("loss_mask"))):
        reduced = total(masked)
        assert isinstance(reduced, Atom)
        assert reduced.mask == Sym("loss_mask")


def test_a_list_of_losses_is_summed_over_its_loop() -> None:
    """And a mean of it divides by its length."""
    losses = Listing(LOSS, loop=4, length=Sym("n"))
    summed = total(losses)
    assert isinstance(summed, Poly | Atom)
    terms = algebra.poly(summed)
    assert terms is not None
    assert [t.atom.accumulated for t in terms.terms if t.atom is not None] == [4]
    assert mean(losses) == divided(summed, Sym("n"))


def test_sums_over_ranks() -> None:
    """Every atom in it is everywhere; alternatives and figures too."""
    for value in (LOSS, divided(LOSS, Sym("n")), algebra.add(LOSS, times(EACH, Sym("n")))):
        spread = algebra.poly(reductions.everywhere(value))
        assert spread is not None
        assert all(t.atom is not None and t.atom.everywhere for t in spread.terms)
    assert isinstance(reductions.everywhere(Detached(LOSS)), Detached)
    assert isinstance(reductions.everywhere(Choice((LOSS, EACH))), Choice)
