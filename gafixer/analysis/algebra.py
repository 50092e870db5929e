"""Arithmetic on values: every spelling of a scaled loss becomes the same sum of terms."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING

from gafixer.analysis.values import (
    Atom,
    Attr,
    Called,
    Choice,
    Const,
    Detached,
    Element,
    Factor,
    Index,
    Item,
    Kind,
    Listing,
    Opaque,
    Poly,
    Sequence,
    Sym,
    Term,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gafixer.analysis.spot import Spot

__all__ = ["add", "choose", "divide", "multiply", "negate", "number", "poly", "simple"]

#: Alternatives kept for one value; code with more is not decided by reading it.
MOST_OPTIONS = 4
#: Terms kept in one sum.
MOST_TERMS = 24
#: Factors kept in one term.
MOST_FACTORS = 24
#: No number that training code means is as large.
_HUGE = 10**300


def number(value: Value) -> float | None:
    """The number that a value is, if it is one."""
    match value:
        case Const(value=bool()):
            return None
        case Const(value=int() as literal):
            return float(literal) if abs(literal) < _HUGE else None
        case Const(value=float() as literal):
            return literal if math.isfinite(literal) else None
        case _:
            return None


def choose(options: Iterable[Value]) -> Value:
    """One of several values; equal ones are one."""
    seen: dict[Value, None] = {}
    for option in options:
        for part in option.options if isinstance(option, Choice) else (option,):
            seen.setdefault(part)
    # What could not be followed is no alternative that anything can be said of.
    known: list[Value] = [option for option in seen if not isinstance(option, Opaque)] or [*seen]
    kept = tuple(itertools.islice(known, MOST_OPTIONS))
    if not kept:
        return Opaque("no alternative")
    return kept[0] if len(kept) == 1 else Choice(kept)


def _each(operation: Callable[[Value, Value], Value], left: Value, right: Value) -> Value | None:
    """Distribute a binary operation over alternatives; None where there are none."""
    match left, right:
        case Choice(options=options), _:
            return choose(operation(option, right) for option in options)
        case _, Choice(options=options):
            return choose(operation(left, option) for option in options)
        case _:
            return None


def poly(value: Value, spot: Spot | None = None) -> Poly | None:
    """A value as a sum of terms; None for what is not a number."""
    match value:
        case Poly():
            return value
        case Atom():
            return Poly((Term(value),))
        case Const():
            literal = number(value)
            return None if literal is None else Poly((Term(None, (), literal),))
        case Sym() | Attr() | Item() | Element() | Called() | Index():
            return Poly((Term(None, (Factor(value, 1, spot),)),))
        case Detached(of=of):
            return poly(of, spot)
        case _:
            return None


def simple(value: Poly) -> Value:
    """Undo the wrapping where a sum is one bare thing."""
    match value.terms:
        case ():
            return Const(0)
        case (Term(atom=None, factors=(), coefficient=literal),):
            return Const(int(literal) if literal.is_integer() else literal)
        case (Term(atom=None, factors=(Factor(value=Const(value=float() as below), power=-1),), coefficient=1.0),) if (
            below != 0.0 and not (1.0 / below).is_integer()
        ):
            return value
        case (Term(atom=None, factors=(Factor(value=only, power=1),), coefficient=1.0),):
            return only
        case (Term(atom=Atom() as atom, factors=(), coefficient=1.0),):
            return atom
        case _:
            return value


def _is_detached(value: Value) -> bool:
    return isinstance(value, Detached)


def _wrap(result: Value, *parts: Value) -> Value:
    """A figure computed from detached values only is detached too."""
    if any(map(_is_detached, parts)) and all(_is_detached(p) or _is_plain(p) for p in parts):
        return Detached(result)
    return result


def _is_plain(value: Value) -> bool:
    """Whether a value is a number that no loss is in."""
    match value:
        case Const() | Sym() | Attr() | Index():
            return True
        case Poly(terms=terms):
            return all(t.atom is None or t.atom.kind is Kind.REDUCED for t in terms)
        case _:
            return False


def add(left: Value, right: Value) -> Value:
    """``left + right``."""
    if (spread := _each(add, left, right)) is not None:
        return spread
    match left, right:
        case Index(), Const() if (step := number(right)) is not None and step.is_integer():
            return left if left.offset is None else dataclasses.replace(left, offset=left.offset + int(step))
        case Const(), Index():
            return add(right, left)
        case Sequence(items=first), Sequence(items=second):
            return Sequence(first + second)
        case Const(value=str() as head), Const(value=str() as tail):
            return Const(head + tail)
        case _:
            pass
    a, b = poly(left), poly(right)
    if a is None or b is None:
        return left if isinstance(left, Listing) else Opaque("a sum of something that is not a number")
    if len(a.terms) + len(b.terms) > MOST_TERMS:
        return Opaque("too many terms")
    return _wrap(simple(_collect((*a.terms, *b.terms))), left, right)


def _collect(terms: tuple[Term, ...]) -> Poly:
    """Add up plain numbers and drop zeros."""
    constant = sum(t.coefficient for t in terms if t.atom is None and not t.factors)
    rest = tuple(t for t in terms if (t.atom is not None or t.factors) and t.coefficient != 0.0)
    return Poly((*rest, Term(None, (), constant)) if constant else rest)


def negate(value: Value) -> Value:
    """``-value``."""
    return multiply(Const(-1), value, None)


def _times(a: Term, b: Term, spot: Spot | None) -> Term | None:
    """The product of two terms; None for a product of two atoms, which is no loss."""
    if a.atom is not None and b.atom is not None:
        # A mask or a weight that was reduced, on a loss: it is a factor of the one that is a loss.
        loss, scale = (a, b) if _rank(a.atom) >= _rank(b.atom) else (b, a)
        assert scale.atom is not None
        extra = (*scale.factors, Factor(scale.atom, 1, spot))
        return Term(loss.atom, _cancel((*loss.factors, *extra)), a.coefficient * b.coefficient)
    if a.atom is None and b.atom is not None:
        a, b = b, a
    moved = tuple(_moved(f, spot) for f in b.factors) if a.atom is not None or a.factors else b.factors
    factors = _cancel((*a.factors, *moved))
    coefficient = a.coefficient * b.coefficient
    for factor in factors:
        if factor.power == -1 and factor.value == Const(coefficient) and coefficient != 1.0:
            return Term(a.atom, tuple(f for f in factors if f is not factor))
    return Term(a.atom, factors, coefficient)


def _rank(atom: Atom) -> int:
    return {Kind.LOSS: 3, Kind.HEAD: 2, Kind.REDUCED: 1, Kind.UNKNOWN: 0}[atom.kind]


def _moved(factor: Factor, spot: Spot | None) -> Factor:
    """A precomputed factor counts as applied where the product is, and remembers where it was made."""
    if spot is None or factor.spot == spot:
        return factor
    return dataclasses.replace(factor, spot=spot, via=factor.spot)


def _cancel(factors: tuple[Factor, ...]) -> tuple[Factor, ...]:
    """Drop pairs ``x * 1/x``."""
    kept: list[Factor] = []
    for factor in factors:
        for other in kept:
            if other.value == factor.value and other.power == -factor.power:
                kept.remove(other)
                break
        else:
            kept.append(factor)
    return tuple(kept)


def multiply(left: Value, right: Value, spot: Spot | None) -> Value:
    """``left * right``, applied at `spot`."""
    if (spread := _each(lambda a, b: multiply(a, b, spot), left, right)) is not None:
        return spread
    a, b = poly(left, spot), poly(right, spot)
    if a is None or b is None:
        return _opaque_product(left, right)
    if len(a.terms) * len(b.terms) > MOST_TERMS:
        return Opaque("too many terms")
    if max(len(t.factors) for t in (*a.terms, *b.terms, Term(None))) > MOST_FACTORS:
        return Opaque("too many factors")
    products = [_times(x, y, spot) for x in a.terms for y in b.terms]
    return _wrap(simple(_collect(tuple(p for p in products if p is not None))), left, right)


def _opaque_product(left: Value, right: Value) -> Value:
    for value in (left, right):
        if isinstance(value, Opaque):
            return value
    return Opaque("a product of something that is not a number")


def divide(left: Value, right: Value, spot: Spot | None) -> Value:
    """``left / right``, applied at `spot`."""
    if (spread := _each(lambda a, b: divide(a, b, spot), left, right)) is not None:
        return spread
    below = _inverse(right, spot)
    if below is None:
        return left if isinstance(left, Opaque) else Opaque("a quotient of something that is not a number")
    return multiply(left, below, None)


def _inverse(value: Value, spot: Spot | None) -> Value | None:
    """``1 / value``; a small constant added against division by zero is dropped."""
    whole = poly(value, spot)
    if whole is None:
        return None
    terms = tuple(t for t in whole.terms if t.atom is not None or t.factors or abs(t.coefficient) > 1.0)
    terms = terms or whole.terms
    if len(terms) != 1:
        return Poly((Term(None, (Factor(whole, -1, spot),)),))
    term = terms[0]
    if term.coefficient == 0.0 or not math.isfinite(term.coefficient):
        return None
    if not term.factors and term.atom is None:
        # A literal divisor keeps its place: it may be the number of steps.
        return Poly((Term(None, (Factor(Const(term.coefficient), -1, spot),)),))
    factors = tuple(dataclasses.replace(f, power=-f.power, spot=spot, via=f.via) for f in term.factors)
    if term.atom is not None:
        factors = (*factors, Factor(term.atom, -1, spot))
    return Poly((Term(None, factors, 1.0 / term.coefficient),))
