"""Arithmetic on values: every spelling of a scaled loss becomes the same sum of terms."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
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
    Func,
    Index,
    Item,
    Kind,
    Listing,
    Opaque,
    Poly,
    Reduction,
    Sequence,
    Sym,
    Term,
    Value,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gafixer.analysis.values import Loops, Spot

__all__ = ["accumulate", "add", "choose", "divide", "everywhere", "multiply", "negate", "number", "poly", "reduce", "reduce_rows", "select"]

#: Alternatives kept for one value; code with more is not decided by reading it.
MOST_OPTIONS = 4
#: Terms kept in one sum.
MOST_TERMS = 24

MASK = re.compile(r"mask\w{0,2}$|^mask(_|$)|valid|weights?$|keep|active|non_?pad|not_?pad|attention", re.IGNORECASE)


def number(value: Value) -> float | None:
    """The number that a value is, if it is one."""
    match value:
        case Const(value=bool()):
            return None
        case Const(value=int() | float() as literal):
            return float(literal)
        case _:
            return None


def choose(options: Iterable[Value]) -> Value:
    """One of several values; equal ones are one."""
    seen: dict[Value, None] = {}
    for option in options:
        for part in option.options if isinstance(option, Choice) else (option,):
            seen.setdefault(part)
    # What could not be followed is no alternative that anything can be said of.
    known = [option for option in seen if not isinstance(option, Opaque)] or list(seen)
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


def _simple(value: Poly) -> Value:
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
    if any(map(_is_detached, parts)) and all(_is_detached(p) or isinstance(p, Const | Sym | Attr | Index) for p in parts):
        return Detached(result)
    return result


def add(left: Value, right: Value) -> Value:
    """``left + right``."""
    if (spread := _each(add, left, right)) is not None:
        return spread
    match left, right:
        case Index(), Const() if (step := number(right)) is not None and step.is_integer():
            return left if left.offset is None else dataclasses.replace(left, offset=left.offset + int(step))
        case Const(), Index():
            return add(right, left)
        case Sequence(items=a), Sequence(items=b):
            return Sequence(a + b)
        case Const(value=str() as a), Const(value=str() as b):
            return Const(a + b)
        case _:
            pass
    a, b = poly(left), poly(right)
    if a is None or b is None:
        return left if isinstance(left, Listing) else Opaque("a sum of something that is not a number")
    if len(a.terms) + len(b.terms) > MOST_TERMS:
        return Opaque("too many terms")
    return _wrap(_simple(_collect((*a.terms, *b.terms))), left, right)


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
    products = [_times(x, y, spot) for x in a.terms for y in b.terms]
    return _wrap(_simple(_collect(tuple(p for p in products if p is not None))), left, right)


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
    result = multiply(left, below, None)
    return result


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


def _is_row_count(factor: Factor) -> bool:
    return factor.power == -1 and isinstance(factor.value, Atom) and factor.value.reduction is Reduction.NONE


def _is_mask(factor: Factor) -> bool:
    return factor.power == 1 and (
        bool(MASK.search(_own_name(factor.value))) or isinstance(factor.value, Atom) or _is_comparison(factor.value)
    )


def _own_name(value: Value) -> str:
    """What a value itself is called, not what it was got from: ``masked_mean(x)`` is no mask."""
    match value:
        case Sym(key=key):
            return key
        case Attr(name=name):
            return name
        case Item(base=base, key=key):
            return text(key) if isinstance(key, Const) and isinstance(key.value, str) else _own_name(base)
        case _:
            return ""


def _is_comparison(value: Value) -> bool:
    return isinstance(value, Called) and text(value.func).rsplit(".", 1)[-1] in {"ne", "eq", "gt", "ge", "lt", "le"}


def reduce(value: Value, how: Reduction, spot: Spot, loops: Loops) -> Value:
    """``value.mean()`` or ``value.sum()``: items become a number."""
    match value:
        case Choice(options=options):
            return choose(reduce(option, how, spot, loops) for option in options)
        case Detached(of=of):
            return Detached(reduce(of, how, spot, loops))
        case Listing(element=element, length=length):
            return _reduce_listing(element, length, how, spot, loops)
        case Sequence(items=items) if items:
            total: Value = Const(0)
            for item in items:
                total = add(total, item)
            return divide(total, Const(len(items)), spot) if how is Reduction.MEAN else total
        case Func() | Const():
            return Opaque("a reduction of something that is not a tensor")
        case _:
            pass
    whole = poly(value)
    if whole is None:
        return Atom(Kind.REDUCED, how.value, how, spot, loops, of=value)
    return _simple(Poly(tuple(_reduce_term(term, how, spot, loops) for term in whole.terms)))


def _reduce_listing(element: Value, length: Value | None, how: Reduction, spot: Spot, loops: Loops) -> Value:
    if how is Reduction.SUM:
        return element
    return divide(element, length if length is not None else Opaque("length of a list"), spot)


def _reduce_term(term: Term, how: Reduction, spot: Spot, loops: Loops) -> Term:
    atom = term.atom
    if atom is not None and atom.reduction is not Reduction.NONE:
        return term  # a number already: .mean() over replicas of DataParallel, .sum() of a scalar
    masks = tuple(f for f in term.factors if _is_mask(f))
    rest = tuple(f for f in term.factors if not _is_mask(f))
    mask = masks[0].value if masks else None
    if atom is not None:
        per_row = any(_is_row_count(f) for f in rest)
        rest = tuple(f for f in rest if not _is_row_count(f))
        made = dataclasses.replace(
            atom, reduction=how, spot=spot, mask=mask or atom.mask, samples=(atom.samples or per_row) and not mask
        )
        return Term(made, rest, term.coefficient)
    if rest and not masks and len(rest) == 1:
        made = Atom(Kind.REDUCED, how.value, how, spot, loops, of=rest[0].value)
        return Term(made, (), term.coefficient)
    inner = tuple(f for f in rest if f.power < 0)
    of = next((f.value for f in term.factors if f.power > 0 and f not in masks), mask)
    return Term(Atom(Kind.REDUCED, how.value, how, spot, loops, of=of, mask=mask), inner, term.coefficient)


def select(value: Value, key: Value) -> Value:
    """``value[mask]`` of a loss per item: the mask says which items count."""
    match value:
        case Choice(options=options):
            return choose(select(option, key) for option in options)
        case _:
            pass
    whole = poly(value)
    if whole is None:
        return value
    made = []
    for term in whole.terms:
        if term.atom is not None and term.atom.reduction is Reduction.NONE:
            made.append(dataclasses.replace(term, atom=dataclasses.replace(term.atom, mask=key, samples=False)))
        elif term.atom is None and term.factors:
            first, *rest = term.factors
            made.append(dataclasses.replace(term, factors=(dataclasses.replace(first, value=Item(first.value, key)), *rest)))
        else:
            made.append(term)
    return _simple(Poly(tuple(made)))


def reduce_rows(value: Value, spot: Spot, loops: Loops) -> Value:
    """``value.sum(dim)`` or ``.mean(dim)``: each row becomes one number, and what a mask selected is settled."""
    match value:
        case Choice(options=options):
            return choose(reduce_rows(option, spot, loops) for option in options)
        case Detached(of=of):
            return Detached(reduce_rows(of, spot, loops))
        case _:
            pass
    whole = poly(value)
    if whole is None:
        return value
    return _simple(Poly(tuple(_row_term(term, spot, loops) for term in whole.terms)))


def _row_term(term: Term, spot: Spot, loops: Loops) -> Term:
    masked = any(_is_mask(f) for f in term.factors)
    rest = tuple(f for f in term.factors if not _is_mask(f))
    if term.atom is not None:
        if term.atom.reduction is not Reduction.NONE:
            return term
        return Term(dataclasses.replace(term.atom, samples=term.atom.samples or masked), rest, term.coefficient)
    of = next((f.value for f in term.factors if f.power > 0), None)
    kept = tuple(f for f in rest if f.value != of)
    atom = Atom(Kind.REDUCED, "rows", Reduction.NONE, spot, loops, of=of, samples=masked)
    return Term(atom, kept, term.coefficient)


def accumulate(before: Value, more: Value, loop: int | None, spot: Spot, loops: Loops) -> Value:
    """``before += more`` in a loop that `before` was made outside of."""
    if isinstance(before, Listing) or loop is None:
        return add(before, more)
    if isinstance(more, Detached):
        inner = before.of if isinstance(before, Detached) else before
        return Detached(accumulate(inner, more.of, loop, spot, loops))
    whole = poly(more)
    if whole is None:
        return add(before, more)
    return add(before, Poly(tuple(_carried(term, loop, spot, loops) for term in whole.terms)))


def _carried(term: Term, loop: int, spot: Spot, loops: Loops) -> Term:
    if term.atom is None and not term.factors:
        return term
    if term.atom is None:
        of = term.factors[0].value if len(term.factors) == 1 else Poly((term,))
        atom = Atom(Kind.REDUCED, "sum", Reduction.SUM, spot, loops, of=of, accumulated=loop)
        return Term(atom, (), term.coefficient)
    atom = term.atom
    return dataclasses.replace(term, atom=dataclasses.replace(atom, accumulated=atom.accumulated or loop))


def everywhere(value: Value) -> Value:
    """A figure after it was summed over all ranks."""
    match value:
        case Choice(options=options):
            return choose(everywhere(option) for option in options)
        case Detached(of=of):
            return Detached(everywhere(of))
        case _:
            pass
    whole = poly(value)
    if whole is None:
        return value
    made = []
    for term in whole.terms:
        atom = term.atom
        if atom is None and term.factors:
            spot = term.factors[0].spot
            if spot is None:
                return value
            atom = Atom(Kind.REDUCED, "sum", Reduction.SUM, spot, (), of=term.factors[0].value)
            term = Term(atom, term.factors[1:], term.coefficient)  # noqa: PLW2901
        made.append(term if atom is None else dataclasses.replace(term, atom=dataclasses.replace(atom, everywhere=True)))
    return _simple(Poly(tuple(made)))
