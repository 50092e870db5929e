"""What was measured of library heads: what they do with the window's count, and what `Trainer` makes of it."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from gafixer.analysis.flow import Honours
from gafixer.data import heads as table

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from gafixer.analysis.flow import LossCall, Maker
    from gafixer.data.heads import Contract

__all__ = ["Measured", "drops", "kind", "measured", "settled"]


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


#: The auto classes whose heads have other names.
_AUTO = {
    "AutoModelForCausalLM": ("ForCausalLM", "LMHeadModel"),
    "AutoModelForSeq2SeqLM": ("ForConditionalGeneration",),
    "AutoModelForSpeechSeq2Seq": ("ForConditionalGeneration",),
    "AutoModelForImageTextToText": ("ForConditionalGeneration",),
    "AutoModelForVision2Seq": ("ForConditionalGeneration",),
}


def drops(heads: Iterable[str], release: str) -> bool:
    """Whether all of these heads take the count and don't divide by it, as measured; an auto class is all it may be."""
    known = _table()
    era = known.era(release) if known is not None else None
    if known is None or era is None:
        return False
    meant = [name for head in heads for name in _named(head, known)]
    found = [c for name in meant for c in known.contracts(name, era).values()]
    return bool(found) and all(contract.count is table.Count.DROPS for contract in found)


def _named(head: str, known: table.HeadTable) -> Iterable[str]:
    if not head.startswith("AutoModelFor"):
        return (head,)
    ends = _AUTO.get(head, (head.removeprefix("AutoModel"),))
    return (name for name in known.tasks if name.endswith(ends))


def settled(calls: Iterable[LossCall], makers: Set[Maker], heads: Iterable[str], release: str) -> tuple[LossCall, ...]:
    """Losses with what was measured of the library's heads: the count that is handed to one that drops it is lost."""
    lost = drops(heads, release)
    return tuple(
        dataclasses.replace(call, honours=Honours.NO)
        if lost and call.maker in makers and call.honours is Honours.YES
        else call
        for call in calls
    )


#: Tasks whose labels are one for a sample, and one or two positions for it.
_SAMPLES = frozenset(
    {"sequence-classification", "image-classification", "audio-classification", "multiple-choice", "next-sentence"}
    | {"xvector", "image-text-matching"}
)


def kind(head: str) -> str | None:
    """What a library head's loss averages over: tokens, samples, spans; None where that isn't known."""
    known = _table()
    task = known.tasks.get(head) if known is not None else None
    if known is None or task is None:
        return None
    if task in _SAMPLES:
        return "sample"
    if task == "question-answering":
        return "span"
    found = [c for release in known.releases for c in known.contracts(head, release).values()]
    return "token" if any(contract.shifts is not None for contract in found) else None
