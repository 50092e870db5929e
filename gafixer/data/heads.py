"""What the heads of Transformers do with their labels and the window's count: measured, in `heads.json`.

`gafixer verify --write-table gafixer/data/heads.json` measures the installed release and replaces its part:

    {"version": 1,
     "releases": [{"transformers": "5.24.0", "accelerate": "1.15.0", "torch": "2.13.0", "steps": 4,
                   "divides": {"PLAIN": 1.0, ...}}],       gradient over the right one, by kind of loss, equal counts
     "contracts": [{"shifts": true, "ignored": -100, "count": "divides", "trainer": {"even": "parity", ...}}, ...],
     "profiles": [{"": 0}, {"single_label_classification": 3, "regression": 4, ...}],   problem type -> contract
     "heads": {"BertForMaskedLM": ["masked-lm", [7, 7, 9, 9, 12]], ...}}   task, and per release a profile or null

A head has null for a release that doesn't have it, or where it couldn't be built. The verdicts under `trainer` are
those of that very release's own `Trainer`: `Verdict` of `gafixer.parity.figures` by variant of the window.
"""

from __future__ import annotations

import enum
import functools
import json
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Contract", "Count", "HeadTable", "heads"]

NAME = "heads.json"


class Count(enum.Enum):
    """What a head does with `num_items_in_batch`."""

    DIVIDES = "divides"  # its whole loss is divided by the count
    PARTLY = "partly"  # one of several terms is
    DROPS = "drops"  # it takes the count and the loss doesn't change
    REFUSES = "refuses"  # its forward raises


@dataclass(frozen=True, slots=True)
class Contract:
    """How a head's loss counts.

    `shifts`: it moves the labels by one position, so the first of each row isn't scored; None where its labels aren't
    scored position by position. `ignored`: the label that isn't scored, None where its loss knows none. `trainer`:
    what a step of that release's `Trainer` has for a gradient, by variant: `parity` or the fault.
    """

    shifts: bool | None
    ignored: int | None
    count: Count
    trainer: Mapping[str, str]

    @property
    def right(self) -> bool:
        """Whether the release's own `Trainer` is right in every variant."""
        return all(verdict == "parity" for verdict in self.trainer.values())


@dataclass(frozen=True, slots=True)
class HeadTable:
    """The table as a whole. `releases` are sorted, oldest first."""

    releases: tuple[str, ...]
    tasks: Mapping[str, str]
    _profiles: Mapping[str, tuple[Mapping[str, Contract] | None, ...]]

    def era(self, release: str) -> str | None:
        """The newest measured release that is not newer than this one; None before the first."""
        older = [known for known in self.releases if Version(known) <= Version(release)]
        return older[-1] if older else None

    def contracts(self, head: str, release: str) -> Mapping[str, Contract]:
        """The head's contracts by problem type ("" where it has none) in exactly this measured release.

        Empty where the release lacks the head, where it couldn't be built, or where the release wasn't measured.
        """
        if head not in self._profiles or release not in self.releases:
            return MappingProxyType({})
        return self._profiles[head][self.releases.index(release)] or MappingProxyType({})


def parse(table: Mapping[str, Any]) -> HeadTable:
    """The table as objects.

    Raises:
        ValueError: where it is of another version.
    """
    if table["version"] != 1:
        raise ValueError(f"{NAME}: version {table['version']} is not known")
    contracts = [
        Contract(c["shifts"], c["ignored"], Count(c["count"]), MappingProxyType(c["trainer"]))
        for c in table["contracts"]
    ]
    profiles = [MappingProxyType({problem: contracts[i] for problem, i in p.items()}) for p in table["profiles"]]
    return HeadTable(
        releases=tuple(release["transformers"] for release in table["releases"]),
        tasks=MappingProxyType({name: task for name, (task, _) in table["heads"].items()}),
        _profiles=MappingProxyType(
            {
                name: tuple(None if i is None else profiles[i] for i in by_release)
                for name, (_, by_release) in table["heads"].items()
            }
        ),
    )


@functools.cache
def heads() -> HeadTable:
    """The table that the package ships."""
    return parse(json.loads(resources.files(__package__).joinpath(NAME).read_text(encoding="utf-8")))
