"""What a project declares of its own code: losses, names and functions that nobody could tell from reading it."""

from __future__ import annotations

import enum
import functools
import re
from dataclasses import dataclass

from gafixer.data.frameworks import STEPS_NAME

__all__ = ["NOTHING", "Declared", "LossReduction", "OwnLoss", "Role", "is_name"]

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class LossReduction(enum.Enum):
    """How a loss of the project is reduced over its items."""

    MEAN = "mean"
    SUM = "sum"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class OwnLoss:
    """A loss function or class of the project, by its name or the end of its dotted name.

    `target` is the argument that holds the targets: its position (from 0) or its name. `ignored_label` is the label
    that is not scored; None: every target is.
    """

    name: str
    reduction: LossReduction = LossReduction.MEAN
    target: int | str = 1
    ignored_label: int | None = None


class Role(enum.Enum):
    """What a declared function does."""

    STEP = "steps the optimizer"
    DIVIDE = "divides its first argument by the steps"


def is_name(text: str) -> bool:
    """Whether this can be the name of a function or class, with or without its module."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Declared:
    """All that a project declares; picklable, and equal where it says the same."""

    losses: tuple[OwnLoss, ...] = ()
    steps_names: tuple[str, ...] = ()
    step_functions: tuple[str, ...] = ()
    divide_functions: tuple[str, ...] = ()

    def loss(self, name: str) -> OwnLoss | None:
        """The loss that a dotted name means, the longest declaration first."""
        found = [own for own in self.losses if _ends(name, own.name)]
        return max(found, key=lambda own: len(own.name), default=None)

    def role(self, name: str) -> Role | None:
        """What the function of this dotted name was declared to do."""
        if any(_ends(name, own) for own in self.step_functions):
            return Role.STEP
        return Role.DIVIDE if any(_ends(name, own) for own in self.divide_functions) else None

    def is_steps(self, name: str) -> bool:
        """Whether an expression is called like the number of microbatches of a window: by habit, or as declared."""
        return STEPS_NAME.search(name) is not None or any(own.search(name) for own in _patterns(self.steps_names))

    def mentioned(self, text: str) -> bool:
        """Whether code speaks of anything declared."""
        return any(pattern.search(text) for pattern in _patterns(self._names()))

    def _names(self) -> tuple[str, ...]:
        return (*(loss.name for loss in self.losses), *self.step_functions, *self.divide_functions)


#: The project declares nothing.
NOTHING = Declared()


def _ends(name: str, own: str) -> bool:
    return name == own or name.endswith(f".{own}")


@functools.lru_cache(maxsize=64)
def _patterns(names: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Each name's last part as a whole word: code rarely spells the module."""
    return tuple(re.compile(rf"(?<!\w){re.escape(name.rpartition('.')[2])}(?!\w)") for name in names)
