"""What is to be done to a file, in terms of its syntax: frozen parts, merged before libcst runs, or in conflict."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from gafixer.findings import Applicability

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gafixer.analysis.spot import Spot

__all__ = [
    "ConflictError",
    "DeclinedError",
    "Helper",
    "Insert",
    "Keyword",
    "Move",
    "Operand",
    "Parameter",
    "Part",
    "Plan",
    "Remove",
    "Replace",
    "Rewrite",
    "Spread",
    "Unwrap",
    "Where",
    "merge",
]


class DeclinedError(Exception):
    """A window is not rewritten; the reason is told to the user."""


class ConflictError(DeclinedError):
    """Two parts want different things of the same place."""


class Where(enum.Enum):
    """On which side of a statement."""

    BEFORE = "before"
    AFTER = "after"
    START = "before, as the first statement of its block"


class Operand(enum.Enum):
    """What of an expression is kept."""

    LEFT = "left operand"
    RIGHT = "right operand"
    ARGUMENT = "first argument"
    RECEIVER = "receiver of the method"


class Helper(enum.Enum):
    """The function that divides gradients: over one process, over ranks that average them, under Accelerate."""

    ALONE = "one process"
    RANKS = "ranks"
    ACCELERATE = "Accelerate"


@dataclass(frozen=True, slots=True)
class Replace:
    """Put other code in the place of an expression."""

    spot: Spot
    code: str


@dataclass(frozen=True, slots=True)
class Unwrap:
    """Keep one operand of an expression: the division goes, what it divided stays."""

    spot: Spot
    keep: Operand


@dataclass(frozen=True, slots=True)
class Keyword:
    """Give a call an argument by name."""

    spot: Spot
    name: str
    code: str


@dataclass(frozen=True, slots=True)
class Spread:
    """Hand a dict of arguments to a call: ``**name``."""

    spot: Spot
    name: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """Let a function take one more argument; `spot` is that of its ``def`` statement."""

    spot: Spot
    name: str
    default: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Take a statement out."""

    spot: Spot


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Put another statement in the place of one."""

    spot: Spot
    code: str


@dataclass(frozen=True, slots=True)
class Insert:
    """Put a statement beside another; of several at one place, a smaller `rank` comes first."""

    spot: Spot
    where: Where
    code: str
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """Take a statement from one place to another."""

    spot: Spot
    anchor: Spot
    where: Where
    rank: int = 0


Part: TypeAlias = Replace | Unwrap | Keyword | Spread | Parameter | Remove | Rewrite | Insert | Move


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is done for one window. Each part says by its spot in which file.

    `functions` and `imports` go to the top level of the window's own file, besides the helper and what it needs; `uses`
    are imports that the rewritten code itself needs, wherever its functions are. `left` are codes of what is left, as
    the message says.
    """

    parts: frozenset[Part]
    applicability: Applicability
    message: str
    helper: Helper | None = None
    functions: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    left: frozenset[str] = frozenset()


def merge(plans: Iterable[Plan]) -> Plan:
    """One plan of several.

    Raises:
        ConflictError: two of them want different things of the same place.
    """
    kept = list(plans)
    parts = frozenset(part for plan in kept for part in plan.parts)
    _check(parts)
    helpers = {plan.helper for plan in kept if plan.helper is not None}
    if len(helpers) > 1:
        raise ConflictError("its windows need different helpers")
    order = [Applicability.SAFE, Applicability.UNSAFE, Applicability.DISPLAY]
    worst = max((plan.applicability for plan in kept), key=order.index, default=Applicability.SAFE)
    message = "; ".join(dict.fromkeys(plan.message for plan in kept))
    functions = dict.fromkeys(text for plan in kept for text in plan.functions)
    imports = dict.fromkeys(line for plan in kept for line in plan.imports)
    uses = dict.fromkeys(line for plan in kept for line in plan.uses)
    left = frozenset(code for plan in kept for code in plan.left)
    helper = next(iter(helpers), None)
    return Plan(parts, worst, message, helper, tuple(functions), tuple(imports), tuple(uses), left)


def _check(parts: frozenset[Part]) -> None:
    claimed: dict[tuple[Spot, str], Part] = {}
    for part in parts:
        match part:
            case Insert():
                continue
            case Keyword(spot=spot, name=name) | Spread(spot=spot, name=name) | Parameter(spot=spot, name=name):
                key = (spot, name)
            case _:
                key = (part.spot, "")
        if key in claimed and claimed[key] != part:
            raise ConflictError(f"two fixes of line {part.spot.row} contradict each other")
        claimed[key] = part
