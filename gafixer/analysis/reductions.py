"""Reductions on values: items become a number, masks say which items count, loops and ranks add up."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from gafixer.analysis import algebra
from gafixer.analysis.spelling import text
from gafixer.analysis.values import (
    Atom,
    Attr,
    Called,
    Choice,
    Const,
    Detached,
    Factor,
    Func,
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
)

if TYPE_CHECKING:
    from gafixer.analysis.spot import Spot
    from gafixer.analysis.values import Loops

__all__ = ["accumulate", "everywhere", "reduce", "reduce_rows", "select", "sum_up"]

MASK = re.compile(r"mask\w{0,2}$|^mask(_|$)|valid|weights?$|keep|active|non_?pad|not_?pad|attention", re.IGNORECASE)


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
    total: Value
    match value:
        case Choice(options=options):
            return algebra.choose(reduce(option, how, spot, loops) for option in options)
        case Detached(of=of):
            return Detached(reduce(of, how, spot, loops))
        case Listing(length=length):
            total = sum_up(value, spot, loops)
            if how is Reduction.SUM:
                return total
            return algebra.divide(total, length if length is not None else Opaque("length of a list"), spot)
        case Sequence(items=items) if items:
            total = Const(0)
            for item in items:
                total = algebra.add(total, item)
            return algebra.divide(total, Const(len(items)), spot) if how is Reduction.MEAN else total
        case Func() | Const():
            return Opaque("a reduction of something that is not a tensor")
        case _:
            pass
    whole = algebra.poly(value)
    if whole is None:
        return Atom(Kind.REDUCED, how.value, how, spot, loops, of=value)
    return algebra.simple(Poly(tuple(_reduce_term(term, how, spot, loops) for term in whole.terms)))


def sum_up(listing: Listing, spot: Spot, loops: Loops) -> Value:
    """The sum of a list that a loop filled."""
    around = loops if listing.loop is None or listing.loop in loops else (*loops, listing.loop)
    return accumulate(Const(0), listing.element, listing.loop, spot, around)


def _reduce_term(term: Term, how: Reduction, spot: Spot, loops: Loops) -> Term:
    atom = term.atom
    if atom is not None and atom.reduction is not Reduction.NONE:
        return term  # a number already: .mean() over replicas of DataParallel, .sum() of a scalar
    masks = tuple(f for f in term.factors if _is_mask(f))
    rest = tuple(f for f in term.factors if not _is_mask(f))
    # A mean over all of what a mask was multiplied with still divides by all of it: only a sum counts what is kept.
    mask = masks[0].value if masks and how is Reduction.SUM else None
    if atom is not None:
        per_row = any(_is_row_count(f) for f in rest)
        rest = tuple(f for f in rest if not _is_row_count(f))
        samples = (atom.samples or per_row) and not mask
        made = dataclasses.replace(
            atom,
            reduction=how,
            spot=spot,
            mask=mask or atom.mask,
            samples=samples,
            whole=how is Reduction.MEAN and atom.mask is None and not samples,
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
            return algebra.choose(select(option, key) for option in options)
        case _:
            pass
    whole = algebra.poly(value)
    if whole is None:
        return value
    made = []
    for term in whole.terms:
        if term.atom is not None and term.atom.reduction is Reduction.NONE:
            made.append(dataclasses.replace(term, atom=dataclasses.replace(term.atom, mask=key, samples=False)))
        elif term.atom is None and term.factors:
            first, *rest = term.factors
            made.append(
                dataclasses.replace(term, factors=(dataclasses.replace(first, value=Item(first.value, key)), *rest))
            )
        else:
            made.append(term)
    return algebra.simple(Poly(tuple(made)))


def reduce_rows(value: Value, spot: Spot, loops: Loops) -> Value:
    """``value.sum(dim)`` or ``.mean(dim)``: each row becomes one number, and what a mask selected is settled."""
    match value:
        case Choice(options=options):
            return algebra.choose(reduce_rows(option, spot, loops) for option in options)
        case Detached(of=of):
            return Detached(reduce_rows(of, spot, loops))
        case _:
            pass
    whole = algebra.poly(value)
    if whole is None:
        return value
    return algebra.simple(Poly(tuple(_row_term(term, spot, loops) for term in whole.terms)))


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
        return algebra.add(before, more)
    if isinstance(more, Detached):
        inner = before.of if isinstance(before, Detached) else before
        return Detached(accumulate(inner, more.of, loop, spot, loops))
    if isinstance(more, Choice):
        return algebra.choose(accumulate(before, option, loop, spot, loops) for option in more.options)
    whole = algebra.poly(more)
    if whole is None or isinstance(more, Const):
        return algebra.add(before, more)
    return algebra.add(before, Poly(tuple(_carried(term, loop, spot, loops) for term in whole.terms)))


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
            return algebra.choose(everywhere(option) for option in options)
        case Detached(of=of):
            return Detached(everywhere(of))
        case _:
            pass
    whole = algebra.poly(value)
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
            term = Term(atom, term.factors[1:], term.coefficient)
        made.append(
            term if atom is None else dataclasses.replace(term, atom=dataclasses.replace(atom, everywhere=True))
        )
    return algebra.simple(Poly(tuple(made)))
