"""A patch as data: what it is put around, where it holds, and why."""

from __future__ import annotations

import enum
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Group", "Patch", "State", "Status"]


class State(enum.Enum):
    """Where a patch stands."""

    WAITING = "waiting"  # its module isn't imported
    APPLIED = "applied"
    STOOD_DOWN = "stood down"
    REVERTED = "reverted"


@dataclass(frozen=True, slots=True)
class Patch:
    """`wrapper(original)` takes the place of attribute `name` of class `owner` in `module`, or of the module itself.

    `since` is the first release that has the target, None for all; `names` are what a target's code must mention for
    the contract to hold, and `parameters` what it must take.
    """

    module: str
    owner: str | None
    name: str
    wrapper: str
    reason: str
    parameters: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    since: tuple[int, int] | None = None
    until: tuple[int, int] | None = None
    foreign: str | None = None
    """Where the function was defined, if not in `module`: a base class's, or imported into the module."""

    @property
    def target(self) -> str:
        """Dotted name, for messages."""
        return ".".join(part for part in (self.module, self.owner, self.name) if part)

    def covers(self, version: tuple[int, int]) -> bool:
        """Whether a release has this target."""
        return (self.since is None or version >= self.since) and (self.until is None or version < self.until)

    def objection(self, owner: object) -> str | None:
        """Why the target is not what the patch was made for; None where it is."""
        found = inspect.getattr_static(owner, self.name, None)
        if not inspect.isfunction(found):
            return f"{self.target} is not a function here"
        if hasattr(found, "__wrapped__") or found.__module__ != (self.foreign or self.module):
            return f"{self.target} was changed by {found.__module__}"
        missing = [p for p in self.parameters if p not in inspect.signature(found).parameters]
        missing += [name for name in self.names if name not in found.__code__.co_names]
        return f"{self.target} no longer has {', '.join(missing)}" if missing else None


@dataclass(frozen=True, slots=True)
class Group:
    """Patches that only make sense together: all of them or none."""

    module: str
    patches: tuple[Patch, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """One patch and where it stands; `note` says why it isn't applied."""

    patch: Patch
    state: State
    note: str = ""

    def __str__(self) -> str:
        return f"{self.patch.target}: {self.state.value}" + (f" ({self.note})" if self.note else "")


def load(wrapper: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The wrapper function named `module:function`, imported only now: it needs torch."""
    import importlib

    module, name = wrapper.split(":")
    loaded: Callable[[Callable[..., Any]], Callable[..., Any]] = getattr(importlib.import_module(module), name)
    return loaded
