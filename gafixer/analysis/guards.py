"""When a guarded statement runs: every G microbatches, at the loop's end, when the framework says so."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis import algebra
from gafixer.analysis.events import Branch
from gafixer.analysis.spelling import text
from gafixer.analysis.values import (
    Atom,
    Attr,
    Called,
    Choice,
    Compare,
    Const,
    Index,
    Logic,
    LogicOp,
    Modulo,
    Poly,
    Sym,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gafixer.analysis.events import Frame
    from gafixer.analysis.spot import Spot

__all__ = ["Guard", "read"]

_SYNC = re.compile(r"sync_gradients|is_gradient_accumulation_boundary|should_sync|is_accumulation_boundary|sync_grad")
_LAST = re.compile(
    r"\blen\(|last|is_end|end_of|num_batches|n_batches|total_steps|steps_in_epoch|num_iter|_per_epoch", re.IGNORECASE
)
#: What a counter is compared with once in a run, and not once in a window.
_THRESHOLD = re.compile(r"warm|max_|start|begin|resume|total|num_train|patience|until", re.IGNORECASE)
_STEPS = re.compile(r"accum|grad_?acc|update_grad|sync|do_step|should_step|is_step|boundary|is_update", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition of a step.

    `steps` is G where it is visible; `counter` the number that is compared with it; `first` how many microbatches
    the first window has when G is large (``G`` is written as 0, so 1 means: it steps after the first one, -1: one
    microbatch too early); `flush` whether the loop's last microbatch steps too; `framework` whether the framework
    decides.
    """

    spot: Spot
    steps: Value | None = None
    counter: Value | None = None
    first: int | None = None
    flush: bool = False
    framework: bool = False
    only_last: bool = False
    named: bool = False

    @property
    def index(self) -> Index | None:
        """The loop index in the counter."""
        return _index_of(self.counter)


@dataclass(frozen=True, slots=True)
class _Fires:
    steps: Value | None
    counter: Value | None
    first: int | None
    framework: bool = False
    named: bool = False


class _Last:
    """The loop's last microbatch."""


def read(frames: Iterable[Frame]) -> Guard | None:
    """The guard that branches among `frames` amount to; None where none of them decides by microbatches."""
    found: Guard | None = None
    for frame in frames:
        if not isinstance(frame, Branch):
            continue
        conditions = list(_conditions(frame.test, holds=frame.holds))
        fires = [c for c in conditions if isinstance(c, _Fires)]
        last = any(isinstance(c, _Last) for c in conditions)
        if fires:
            best = next((f for f in fires if not f.named), fires[0])
            guard = Guard(frame.spot, best.steps, best.counter, best.first, last, best.framework, named=best.named)
            if found is None or found.named or found.only_last:
                found = guard
        elif last and found is None:
            found = Guard(frame.spot, flush=True, only_last=True)
    return found


def _conditions(test: Value, *, holds: bool) -> Iterable[_Fires | _Last]:
    match test:
        case Logic(op=LogicOp.NOT, parts=(inner,)):
            yield from _conditions(inner, holds=not holds)
        case Logic(op=op, parts=parts):
            found = [tuple(_conditions(part, holds=holds)) for part in parts]
            yield from (condition for part in found for condition in part)
            either = (op is LogicOp.OR) == holds
            if either and not all(found) and any(isinstance(c, _Fires) and not c.named for part in found for c in part):
                yield _Last()  # what else makes it step can't be told; the end of the loop may
        case Choice(options=options):
            for option in options:
                yield from _conditions(option, holds=holds)
        case Compare(op=op, left=left, right=right):
            yield from _comparison(op, left, right, holds=holds)
        case Modulo() if not holds:
            yield _modulo(test, 0)
        case Poly() | Sym() | Attr() | Called() | Atom():
            yield from _named(test, holds=holds)
        case _:
            return


def _named(test: Value, *, holds: bool) -> Iterable[_Fires | _Last]:
    name = text(test)
    if _SYNC.search(name) and holds:
        yield _Fires(None, None, None, framework=True)
    elif _LAST.search(name) and holds:
        yield _Last()
    elif _STEPS.search(name):
        yield _Fires(None, None, None, named=True)


def _comparison(op: str, left: Value, right: Value, *, holds: bool) -> Iterable[_Fires | _Last]:
    if isinstance(right, Modulo):
        left, right = right, left
    equal = (op in {"==", "is"}) == holds if op in {"==", "!=", "is", "is not"} else None
    match left:
        case Modulo() if equal:
            yield from _remainder(left, right)
            return
        case Modulo() if op in {"<", "<="} and holds:
            yield _modulo(left, 0)
            return
        case _:
            pass
    index = _index_of(left)
    if index is None and _index_of(right) is not None:
        left, right, index = right, left, _index_of(right)
    reached = equal or (op in {">=", ">"} and holds) or (op in {"<", "<="} and not holds)
    if not reached or index is None:
        if reached and _LAST.search(text(right)):
            yield _Last()
        elif isinstance(left, Sym | Attr) and _STEPS.search(text(left)) and isinstance(right, Const) and reached:
            yield _Fires(None, None, None, named=True)
        return
    if _LAST.search(text(right)):
        yield _Last()
    elif (algebra.number(right) or 2) > 1 and not _THRESHOLD.search(text(right)) and _is_plain(right):
        # A counter that is compared with G and set back; counted from 1 it steps on time.
        first = None if index.offset is None else 0
        yield _Fires(right, left, first)


def _is_plain(value: Value) -> bool:
    """Whether a counter's limit is one figure, give or take one, and not worked out of several."""
    match value:
        case Choice(options=options):
            return all(map(_is_plain, options))
        case Poly(terms=terms):
            named = [term for term in terms if term.factors or term.atom is not None]
            return len(named) == 1 and len(named[0].factors) + (named[0].atom is not None) == 1
        case _:
            return True


def _remainder(modulo: Modulo, right: Value) -> Iterable[_Fires]:
    rest = algebra.number(right)
    if rest is not None:
        yield _modulo(modulo, int(rest))
        return
    # x % G == G - 1
    difference = algebra.add(modulo.right, algebra.negate(right))
    gap = algebra.number(difference)
    whole = algebra.poly(difference)
    if gap is None and whole is not None:
        same = [t for t in whole.terms if t.factors and t.factors[0].value == modulo.right]
        if len(same) == 2:
            gap = sum(t.coefficient for t in whole.terms if not t.factors)
    if gap is not None and math.isfinite(gap):
        yield _modulo(modulo, -int(gap))


def _modulo(modulo: Modulo, rest: int) -> _Fires:
    index = _index_of(modulo.left)
    offset = index.offset if index is not None else None
    exact = isinstance(modulo.left, Index)
    first = (rest - offset + 1) if exact and offset is not None else None
    steps = algebra.number(modulo.right)
    if first is not None and steps is not None and steps >= 1:
        first %= int(steps)
    return _Fires(modulo.right, modulo.left, first)


def _index_of(value: Value | None) -> Index | None:
    match value:
        case Index():
            return value
        case Modulo(left=left):
            return _index_of(left)
        case Poly(terms=terms):
            found = [f.value for term in terms for f in term.factors if isinstance(f.value, Index)]
            # epoch * batches + batch: the innermost loop is the one that counts microbatches.
            inner = max(found, key=lambda index: index.loop, default=None)
            return None if inner is None else dataclasses.replace(inner, restarts=inner.restarts and len(terms) == 1)
        case Choice(options=options):
            return next((i for i in map(_index_of, options) if i is not None), None)
        case _:
            return None
