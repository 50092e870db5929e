"""From the value that goes backward to the terms of a site: what each is, and what divides it."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from gafixer.analysis import algebra
from gafixer.analysis.site import Division, Divisor, Scale
from gafixer.analysis.spelling import peel, text
from gafixer.analysis.values import (
    Atom,
    Attr,
    Bound,
    Called,
    Choice,
    Const,
    Element,
    Factor,
    Index,
    Item,
    Kind,
    Loops,
    Poly,
    Reduction,
    Sym,
    Term,
    Value,
)
from gafixer.data.frameworks import RANKS
from gafixer.data.transformers import COUNT

if TYPE_CHECKING:
    from gafixer.analysis.spot import Spot
    from gafixer.analysis.windows import Window

__all__ = ["classify", "divisions", "losses", "scale"]

_COUNT = re.compile(
    r"num_items|n_?tokens|num_tok|tok_?count|total_tok|normali[sz]|denom|numel|n_items|valid_tok|token_count|num_loss|ntoken"
    r"|n_valid|num_valid|loss_tokens|active",
    re.IGNORECASE,
)
_SAMPLES = re.compile(
    r"batch_?size|\bbsz?\b|\bbs\b|\.shape|\.size\(|\blen\(\)|n_?samples|nsents|micro_?bs", re.IGNORECASE
)
_LOSS = re.compile(r"loss|\bnll\b|\bce\b|objective|\bce_|_ce\b|elbo", re.IGNORECASE)


def losses(value: Value, spot: Spot) -> list[list[tuple[Atom, tuple[Factor, ...], float]]]:
    """The alternatives of a loss, each a list of terms ``(atom, factors, coefficient)``."""
    if isinstance(value, Choice):
        return [terms for option in value.options for terms in losses(option, spot)]
    whole = algebra.poly(value, spot)
    if whole is None:
        atom = Atom(Kind.UNKNOWN, text(value), Reduction.UNKNOWN, spot)
        return [[(atom, (), 1.0)]]
    # A zero that starts a sum, a constant that is added: neither has a gradient.
    parts = [t for t in whole.terms if t.atom is not None or t.factors]
    return [[_headed(t, spot, alone=len(parts) == 1) for t in parts] or [_nothing(spot)]]


def _nothing(spot: Spot) -> tuple[Atom, tuple[Factor, ...], float]:
    return Atom(Kind.UNKNOWN, "loss", Reduction.UNKNOWN, spot), (), 1.0


def _headed(term: Term, spot: Spot, *, alone: bool) -> tuple[Atom, tuple[Factor, ...], float]:
    """A term with its atom: where it has none, the factor that is most like a loss becomes it."""
    if term.atom is not None:
        if (
            term.atom.kind is Kind.REDUCED
            and term.atom.mask is None  # what a mask is put on is no head's mean
            and term.atom.of is not None
            and (found := head(term.atom.of, spot)) is not None
        ):
            loops, accumulated = term.atom.loops, term.atom.accumulated
            return dataclasses.replace(found, loops=loops, accumulated=accumulated), term.factors, term.coefficient
        return term.atom, term.factors, term.coefficient
    above = [f for f in term.factors if f.power > 0]
    if not above:
        return Atom(Kind.UNKNOWN, "1", Reduction.UNKNOWN, spot), term.factors, term.coefficient
    best = max(above, key=lambda f: (head(f.value, spot) is not None, bool(_LOSS.search(text(f.value)))))
    rest = tuple(f for f in term.factors if f is not best)
    # Of several terms only one that is called a loss, or comes first where labels went in, is taken for the head's.
    found = head(best.value, spot) if alone or _LOSS.search(text(best.value)) or _answers(best.value) else None
    atom = found or _unknown(best.value, spot)
    return atom, rest, term.coefficient


def _answers(value: Value) -> bool:
    """Whether an output answers to labels: ``lm_loss, mc_loss, *_ = model(x, lm_labels=y, mc_labels=z)``."""
    match peel(value):
        case Item(base=base, key=Const(value=int() as place)) if isinstance(call := peel(base), Called):
            return 0 <= place < sum("label" in name for name, _ in call.keywords)
        case _:
            return False


def _unknown(value: Value, spot: Spot) -> Atom:
    made = peel(value)
    where = made.spot if isinstance(made, Called) else spot
    return Atom(Kind.UNKNOWN, text(value), Reduction.UNKNOWN, where, _loops(value), of=value)


def head(value: Value, spot: Spot) -> Atom | None:
    """``model(...).loss`` and its other spellings: the default loss of a head."""
    part: str | int | None = None
    match peel(value):
        case Attr(base=base, name=part) if _LOSS.search(part):
            call = peel(base)
        case Item(base=base, key=Const(value=str() as part)) if _LOSS.search(part):
            call = peel(base)
        case Item(base=base, key=Const(value=int() as part)):
            call = peel(base)
        case Called() as call:
            pass
        case _:
            return None
    if isinstance(call, Called) and _is_model(call.func) and not _is_per_item(call):
        return Atom(Kind.HEAD, text(call.func), Reduction.MEAN, call.spot, call.loops, of=call, part=part)
    return None


def _is_per_item(call: Called) -> bool:
    """Whether a model is asked for the losses of its items: ``model(x, y, reduction="none")``."""
    return any(value == Const("none") for _, value in call.keywords)


_MODEL = re.compile(
    r"model|net\b|engine|\bgpt|bert|llama|lm$|policy|student|forward$|\bm$|module|decoder|For[A-Z]\w+|LMHead"
    r"|from_pretrained",
    re.IGNORECASE,
)


def _is_model(func: Value) -> bool:
    """Whether what is called is a model, by its last name or by the class that made it."""
    name, made = text(func), peel(func)
    origin = text(made) if isinstance(made, Called) else _last_attribute(text(made))
    return any(_MODEL.search(part) for part in (_last_attribute(name), origin)) and not name.startswith("torch.")


def _last_attribute(name: str) -> str:
    """What an object is called by whoever holds it: the criterion of an engine is no engine."""
    return name.rsplit(".", 1)[-1]


def _loops(value: Value) -> Loops:
    match value:
        case Sym(loops=loops) | Called(loops=loops) | Atom(loops=loops):
            return loops
        case Attr(base=base) | Item(base=base) | Element(of=base):
            return _loops(base)
        case Poly(terms=terms):
            found = [_loops(t.atom) for t in terms if t.atom is not None]
            found += [_loops(f.value) for t in terms for f in t.factors]
            return max(found, key=len, default=())
        case _:
            return ()


def _from_microbatch(value: Value, loop: int) -> bool:
    """Whether a value is made anew for every microbatch of the loop."""
    match value:
        case Atom(accumulated=accumulated) if accumulated is not None:
            return accumulated != loop and loop in _loops(value)
        case Called(func=Bound(receiver=of)) | Called(func=Attr(base=of)):
            return _from_microbatch(of, loop)
        case Called(func=Sym(key="len"), args=(of,)):
            return _from_microbatch(of, loop)
        case Element(loop=own):
            return own == loop
        case Attr(base=base) | Item(base=base):
            return _from_microbatch(base, loop)
        case _:
            return loop in _loops(value)


def classify(factor: Factor, window: Window) -> Divisor:
    """What a factor is, seen from the window."""
    value = factor.value
    name = text(value)
    loop = window.loop.id if window.loop is not None else None
    if _is_steps(value, window):
        return Divisor.STEPS
    match value:
        case Const():
            return Divisor.CONSTANT
        case Atom(reduction=Reduction.NONE):
            return Divisor.LOCAL_ITEMS
        case Atom() if value.accumulated is None and _counts_samples(value):
            return Divisor.SAMPLES
        case Atom():
            local = loop is not None and _from_microbatch(value, loop)
            nowhere = loop is None and value.accumulated is None
            return Divisor.LOCAL_ITEMS if (local or nowhere) and not _spans(value, window) else Divisor.WINDOW_ITEMS
        case Poly():
            kinds = {classify(Factor(t.atom, -1), window) for t in value.terms if t.atom is not None}
            if kinds:
                return Divisor.WINDOW_ITEMS if Divisor.WINDOW_ITEMS in kinds else kinds.pop()
        case Index():
            return Divisor.OTHER
        case _:
            pass
    if RANKS.search(name):
        return Divisor.RANKS
    if COUNT in name:
        return Divisor.WINDOW_ITEMS  # Trainer's own count is the window's, however it arrives
    if _COUNT.search(name):
        local = loop is not None and _from_microbatch(value, loop)
        return Divisor.LOCAL_ITEMS if local else Divisor.WINDOW_ITEMS
    if window.declared.is_steps(name):
        return Divisor.STEPS
    if _SAMPLES.search(name):
        return Divisor.SAMPLES if _is_inmost(value, window) else Divisor.OTHER
    origin = peel(value)
    if origin is not value and isinstance(origin, Called | Item | Attr) and not isinstance(value, Called):
        return classify(dataclasses.replace(factor, value=origin), window) if origin != value else Divisor.OTHER
    return Divisor.OTHER


def _is_inmost(value: Value, window: Window) -> bool:
    """Whether a size may be that of one microbatch, and not of what was cut into microbatches before."""
    loops = window.backward.loops
    return not isinstance(value, Called) or not value.loops or not loops or loops[-1].id in value.loops


def _counts_samples(atom: Atom) -> bool:
    return False if atom.of is None else bool(re.search(r"batch_size|\.shape\[0\]|\.size\(\)$", text(atom.of)))


def _spans(atom: Atom, window: Window) -> bool:
    """Whether a count was summed up over the window's microbatches or made before them."""
    loop = window.loop.id if window.loop is not None else None
    return atom.accumulated is not None or (loop is not None and loop not in atom.loops)


def _is_steps(value: Value, window: Window) -> bool:
    steps = window.steps
    if steps is not None:
        if value == steps:
            return True
        if _last_word(value) == _last_word(steps) and not isinstance(value, Const | Atom | Poly):
            return True
    match value:
        case Called(func=func, args=(over, *_)) if text(func) == "len" and window.loop is not None:
            return window.loop.over is not None and _same_list(over, window.loop.over)
        case Atom() | Const() | Poly() | Index():
            return False
        case _:
            name = text(value)
            return window.declared.is_steps(name) and not _COUNT.search(name) and not RANKS.search(name)


def _same_list(a: Value, b: Value) -> bool:
    return a == b or (isinstance(b, Called) and any(_same_list(a, arg) for arg in b.args))


def _last_word(value: Value) -> str:
    return re.split(r"[.\[]", text(value))[-1].strip("'\"]()")


def divisions(factors: tuple[Factor, ...], window: Window) -> tuple[Division, ...]:
    """Factors as the site tells them."""
    made = []
    for factor in factors:
        kind = classify(factor, window)
        made.append(Division(kind, factor.value, factor.power, factor.spot, factor.author, factor.via))
    return tuple(made)


def scale(atom: Atom, found: tuple[Division, ...]) -> Scale:
    """Whether a term is a mean over its own microbatch. A sum over its own count is one."""
    if any(d.divisor is Divisor.LOCAL_ITEMS and d.power < 0 for d in found):
        return Scale.MEAN
    match atom.reduction:
        case Reduction.MEAN:
            undone = any(d.divisor in {Divisor.LOCAL_ITEMS, Divisor.SAMPLES} and d.power > 0 for d in found)
            return Scale.SUM if undone else Scale.MEAN
        case Reduction.SUM:
            return Scale.MEAN if any(d.divisor is Divisor.SAMPLES and d.power < 0 for d in found) else Scale.SUM
        case _:
            return Scale.UNKNOWN
