"""What was measured of library heads: what they do with the window's count, and what `Trainer` makes of it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from gafixer.data import heads as table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gafixer.data.heads import Contract

__all__ = ["Measured", "measured"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Of some heads all contracts, and the release in which they were measured."""

    release: str
    contracts: tuple[Contract, ...]

    @property
    def verdicts(self) -> frozenset[str]:
        """What that release's own `Trainer` makes of a window, of all heads and variants."""
        return frozenset(verdict for contract in self.contracts for verdict in contract.trainer.values())


@functools.cache
def _table() -> table.HeadTable | None:
    shipped = resources.files("gafixer.data").joinpath(table.NAME)
    return table.heads() if shipped.is_file() else None


def measured(heads: Iterable[str], release: str) -> Measured | None:
    """What is known of heads in a release: from the newest measured one that is not newer.

    None where one of the heads was never measured: then their names have to tell.
    """
    known = _table()
    era = known.era(release) if known is not None else None
    if known is None or era is None:
        return None
    found = [known.contracts(head, era) for head in heads]
    if not found or not all(found):
        return None
    return Measured(era, tuple(contract for by_problem in found for contract in by_problem.values()))
