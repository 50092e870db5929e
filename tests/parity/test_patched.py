"""Before and after: the patch is on for one step and off for the other, in whatever order they come."""

from __future__ import annotations

import contextlib
import sys
import types
from typing import TYPE_CHECKING, Any

import torch

from gafixer.parity import measure
from gafixer.parity.batches import Variant
from gafixer.parity.drive import Driven
from gafixer.parity.heads import Head
from gafixer.parity.inputs import Feed
from gafixer.parity.measure import Case, drive_case
from gafixer.parity.models import TinyModel
from gafixer.parity.reference import witness
from gafixer.parity.sizes import PLANS
from gafixer.parity.windows import split

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


class Model(torch.nn.Linear):
    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:  # type: ignore[override]  # a head's own
        return torch.nn.functional.mse_loss(super().forward(x)[:, 0], labels)


def case() -> Case:
    model = Model(2, 1)
    window = split({"x": torch.randn(4, 2), "labels": torch.randn(4)}, (2, 2))
    tiny = TinyModel(Head("Model", "here", ("labels",)), model, PLANS[0])
    return Case(tiny, Variant("even"), Feed(), window, witness(model, window))


def test_off_is_off_even_after_on(monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"on": True}  # as an import of the real one leaves it
    seen: list[bool] = []

    @contextlib.contextmanager
    def patched(on: bool = True) -> Iterator[None]:
        before, state["on"] = state["on"], on
        yield
        state["on"] = before

    def drive(model: Any, window: Any, **arguments: Any) -> Driven:
        seen.append(state["on"])
        return Driven(torch.ones(3, dtype=torch.float64), None)

    monkeypatch.setitem(sys.modules, "gafixer.patch", types.SimpleNamespace(patched=patched))
    monkeypatch.setattr(measure, "drive_trainer", drive)
    asked = [False, True, False, True]
    outcomes = [drive_case(case(), patched=on) for on in asked]
    assert seen == asked
    assert [outcome.patched for outcome in outcomes] == asked


def test_off_does_not_import_the_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gafixer.patch", raising=False)
    monkeypatch.setattr(
        measure, "drive_trainer", lambda model, window, **arguments: Driven(torch.ones(3, dtype=torch.float64), None)
    )
    drive_case(case())
    assert "gafixer.patch" not in sys.modules
