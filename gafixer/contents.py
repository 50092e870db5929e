"""What files hold, by a digest: read once, and not at all where size and time are those of a file that is known."""

from __future__ import annotations

import enum
import hashlib
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from gafixer import files

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MOST_BYTES", "Contents", "Kind", "Stamp", "digest", "kind"]

#: A file larger than this is no evidence: data, or generated.
MOST_BYTES = 2_000_000
_LARGE = "large"


class Kind(enum.IntEnum):
    """What a path leads to."""

    NOTHING = 0
    FILE = 1
    OTHER = 2


class Stamp(NamedTuple):
    """Size and time of change of a file whose content has a digest."""

    size: int
    time: int
    digest: str


def digest(content: bytes) -> str:
    """A name for these bytes."""
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def kind(path: str) -> Kind:
    """What a path leads to now."""
    return _kind(_state(path))


class Contents:
    """The files that one scan looks into; `known` are stamps of an earlier one.

    `looked` is what it found wherever it looked for a file.
    """

    def __init__(self, known: Mapping[str, Stamp] | None = None) -> None:
        self._known = known or {}
        self._digests: dict[str, str | None] = {}
        self.looked: dict[str, Kind] = {}

    def exists(self, path: str) -> bool:
        """Whether there is anything at a path."""
        if path not in self.looked:
            self._look(path)
        return self.looked[path] is not Kind.NOTHING

    def read(self, path: str) -> bytes | None:
        """The bytes of a file; None where there is none, or it is too large.

        Raises:
            OSError: it can't be read.
        """
        state = self._look(path)
        if state is None or state.st_size > MOST_BYTES:
            self._digests[path] = None if state is None else _LARGE
            return None
        content = files.read(path)
        self._digests[path] = digest(content)
        return content

    def of(self, path: str) -> str | None:
        """The digest of a file; None where there is none that can be read."""
        if path not in self._digests:
            self._digests[path] = self._of(path)
        return self._digests[path]

    def seen(self, path: str) -> str | None:
        """The digest of a file that was asked about before."""
        return self._digests.get(path)

    def _of(self, path: str) -> str | None:
        state = self._look(path)
        if state is None:
            return None
        known = self._known.get(path)
        if known is not None and (known.size, known.time) == (state.st_size, state.st_mtime_ns):
            return known.digest
        try:
            return _LARGE if state.st_size > MOST_BYTES else digest(files.read(path))
        except OSError:
            return None

    def _look(self, path: str) -> os.stat_result | None:
        """The state of a regular file."""
        state = _state(path)
        self.looked[path] = found = _kind(state)
        return state if found is Kind.FILE else None


def _state(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _kind(state: os.stat_result | None) -> Kind:
    if state is None:
        return Kind.NOTHING
    return Kind.FILE if stat.S_ISREG(state.st_mode) else Kind.OTHER
