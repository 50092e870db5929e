"""A dict that can be set back: what makes running both arms of a branch cheap."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["Ledger"]

Key = TypeVar("Key")
Entry = TypeVar("Entry")


class Ledger(dict[Key, Entry], Generic[Key, Entry]):
    """A dict that logs its assignments. Only ``ledger[key] = value`` is logged; nothing is ever deleted from one."""

    __slots__ = ("_log",)

    def __init__(self, entries: dict[Key, Entry] | None = None) -> None:
        super().__init__(entries or {})
        self._log: list[tuple[Key, Entry | None]] = []

    def __setitem__(self, key: Key, value: Entry) -> None:
        self._log.append((key, self.get(key)))
        super().__setitem__(key, value)

    def mark(self) -> int:
        """A point to come back to."""
        return len(self._log)

    def changes(self, mark: int) -> dict[Key, tuple[Entry | None, Entry]]:
        """What was assigned since a mark: key -> (before, now); before is None for a new key."""
        before: dict[Key, Entry | None] = {}
        for key, old in self._log[mark:]:
            before.setdefault(key, old)
        return {key: (old, self[key]) for key, old in before.items()}

    def undo(self, mark: int) -> dict[Key, tuple[Entry | None, Entry]]:
        """Set everything back to a mark; returns what was changed since."""
        changed = self.changes(mark)
        del self._log[mark:]
        for key, (old, _) in changed.items():
            if old is None:
                del self[key]
            else:
                super().__setitem__(key, old)
        return changed
