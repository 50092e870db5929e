"""What a value carries, and in which order it is told."""

from __future__ import annotations

import itertools

from gafixer.analysis.flow import Honours, LossCall, Maker
from gafixer.analysis.spot import Spot


def _spot(row: int) -> Spot:
    return Spot("model.py", row, 0, row, 9)


def test_losses_are_told_in_one_order() -> None:
    """Of one call that becomes a mean at several places, too: sets have another order in each process."""
    calls = [
        LossCall(_spot(1), "cross_entropy", Honours.NO, Maker.CRITERION, via, mean)
        for via, mean in itertools.product([None, _spot(3), _spot(4)], repeat=2)
    ]
    orders = {tuple(sorted(some, key=lambda call: call.order)) for some in (calls, calls[::-1], calls[4:] + calls[:4])}
    assert len(orders) == 1
