"""What a scan says: findings, the places they point at, and the edits that mend them.

Everything here is frozen and picklable: rules make findings, fronts print them, nothing changes them in between.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = [
    "Applicability",
    "Confidence",
    "Detail",
    "Edit",
    "Finding",
    "Fix",
    "Place",
    "Position",
    "Related",
    "Role",
    "Severity",
    "Span",
]


class Severity(enum.Enum):
    """How wrong the code is, from worst to least."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """2 for an error, 1 for a warning, 0 for information."""
        return {Severity.ERROR: 2, Severity.WARNING: 1, Severity.INFO: 0}[self]


class Confidence(enum.Enum):
    """How much of what a finding says was read in the code, and how much was assumed."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Role(enum.Enum):
    """What happens at a place that a finding points at."""

    MEAN = "mean"
    DIVIDE = "divide"
    BACKWARD = "backward"
    STEP = "step"
    COUNT = "count"
    LOOP = "loop"
    EVIDENCE = "evidence"


class Applicability(enum.Enum):
    """Whether a fix may be applied by itself (safe), on request (unsafe), or is prose only (display)."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


class Detail(enum.IntEnum):
    """How much of fixes is worked out: nothing, whether there are any and what they do, or their edits too."""

    NOTHING = 0
    PROSE = 1
    EDITS = 2


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A character of a file: row and column count from 1, the column in characters."""

    row: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """From `start` up to, not including, `end`."""

    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class Place:
    """A span of a file. `filename` is the path as the scan was given it.

    In a notebook rows count in a cell, and `cell` is its number among all cells, from 1.
    """

    filename: str
    span: Span
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that a finding is about, with what happens there."""

    role: Role
    place: Place
    message: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of `span` with `content`; in a notebook, in the cell of this number.

    `filename` is the file, where that is another one than the finding's.
    """

    span: Span
    content: str
    cell: int | None = None
    filename: str | None = None


@dataclass(frozen=True, slots=True)
class Fix:
    """How to mend a finding; `edits` is empty for a fix that is prose only, or of which no more was asked."""

    applicability: Applicability
    message: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault at one place.

    `message` is one line: the fault, its numbers where they are known, its consequence.
    `help` says in one line how to mend it by hand.
    """

    code: str
    name: str
    message: str
    severity: Severity
    confidence: Confidence
    place: Place
    related: tuple[Related, ...] = ()
    help: str = ""
    fix: Fix | None = None

    @property
    def order(self) -> tuple[str, int, Span, str]:
        """Sort key: file, place, code."""
        return (self.place.filename, self.place.cell or 0, self.place.span, self.code)
