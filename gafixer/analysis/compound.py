"""What values that are made of values have in common: each works out its hash and its extent once.

Values are compared, looked up and measured all the time, and each time anew that would walk all that they are made of.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Compound", "Extent"]


class Extent(NamedTuple):
    """How many parts something has, all levels together and itself included, and how many levels are below it."""

    parts: int
    depth: int


class Compound:
    """A frozen dataclass that remembers its hash (of the fields that are compared), and its extent once it is known.

    A dataclass makes a hash of its own unless its body has one: each must say ``__hash__ = Compound.__hash__``.
    """

    __slots__ = ("_extent", "_hash")

    _hash: int
    _extent: Extent

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            made = hash(_compared(type(self))(self))
            object.__setattr__(self, "_hash", made)
            return made

    @property
    def extent(self) -> Extent | None:
        """How large it is, if that is known."""
        return getattr(self, "_extent", None)

    def remember(self, extent: Extent) -> None:
        """Keep how large it is."""
        object.__setattr__(self, "_extent", extent)


_GETTERS: dict[type, Callable[[object], object]] = {}


def _compared(cls: type) -> Callable[[object], object]:
    """Gives the fields of a class that are compared."""
    if cls not in _GETTERS:
        assert dataclasses.is_dataclass(cls)
        _GETTERS[cls] = attrgetter(*(f.name for f in dataclasses.fields(cls) if f.compare))
    return _GETTERS[cls]
