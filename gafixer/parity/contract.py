"""What a head does with its labels and with the window's count, seen from outside: by its loss calls and its loss."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from gafixer.data.heads import Contract, Count
from gafixer.parity.reference import loss_of
from gafixer.parity.weigh import Recorder
from gafixer.parity.windows import copy_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gafixer.parity.measure import Case
    from gafixer.parity.windows import Microbatch

__all__ = ["merged", "observe"]

_COUNTS = (7.0, 14.0)  # far from any real count of the windows


def observe(case: Case) -> Contract:
    """The contract that one case shows, the patch being off; without a trainer's verdict."""
    batch = case.window.whole()
    calls = _calls(case.tiny.model, batch)
    # Where the targets are positions, what is ignored is the length of a row, not a label.
    labelled = calls if "labels" in batch else []
    ignored = next((call["ignore_index"] for call in labelled if _classifies(call)), None)
    return Contract(_shifts(batch, calls), ignored, _count(case.tiny.model, batch), {})


def merged(contracts: list[Contract], trainer: Mapping[str, str]) -> Contract:
    """One contract of a head's variants: what any of them could tell."""
    first = contracts[0]
    shifts = next((c.shifts for c in contracts if c.shifts is not None), None)
    return Contract(shifts, first.ignored, first.count, dict(trainer))


def _calls(model: Any, batch: Microbatch) -> list[dict[str, Any]]:
    recorder = Recorder()
    with torch.no_grad(), recorder:
        model(**copy_of(batch))
    return recorder.calls


def _classifies(call: dict[str, Any]) -> bool:
    return "ignore_index" in call and not call["target"].is_floating_point()


def _scored(labels: torch.Tensor, ignored: int) -> list[int]:
    return [int(label) for label in labels.reshape(-1).cpu() if label not in (ignored, -100)]


def _shifts(batch: Microbatch, calls: list[dict[str, Any]]) -> bool | None:
    """Whether the scored targets are the labels without the first of each row; None where both fit, or neither."""
    labels = batch.get("labels")
    if not torch.is_tensor(labels) or labels.dim() < 2 or labels.is_floating_point():
        return None
    for call in filter(_classifies, calls):
        targets = _scored(call["target"], call["ignore_index"])
        plain = targets == _scored(labels, call["ignore_index"])
        shifted = targets == _scored(labels[..., 1:], call["ignore_index"])
        if plain != shifted:
            return shifted
    return None


def _count(model: Any, batch: Microbatch) -> Count:
    try:
        small, large = (_loss(model, batch, count) for count in _COUNTS)
    except Exception:  # a forward that takes no count says so in its own way
        return Count.REFUSES
    if math.isclose(small, large, rel_tol=1e-4, abs_tol=1e-12):
        return Count.DROPS
    return Count.DIVIDES if math.isclose(small, large * _COUNTS[1] / _COUNTS[0], rel_tol=1e-4) else Count.PARTLY


def _loss(model: Any, batch: Microbatch, count: float) -> float:
    device = next(model.parameters()).device
    torch.manual_seed(0)
    with torch.no_grad():
        output = model(**copy_of(batch), num_items_in_batch=torch.tensor(count, device=device))
    return float(loss_of(output))
