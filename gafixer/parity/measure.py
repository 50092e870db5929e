"""Head by head, variant by variant: build, witness, drive, compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gafixer.parity.batches import Variant, variants, window_for
from gafixer.parity.drive import drive_trainer
from gafixer.parity.figures import Figures, compare
from gafixer.parity.models import BuildError, TinyModel, builds
from gafixer.parity.reference import Witness, witness
from gafixer.parity.windows import copy_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gafixer.parity.drive import Driven
    from gafixer.parity.heads import Head
    from gafixer.parity.tasks import Problem
    from gafixer.parity.windows import Window

__all__ = ["Case", "Outcome", "measure_head", "prepare"]


@dataclass(frozen=True, slots=True)
class Case:
    """A model that runs, its window and what is known of it."""

    tiny: TinyModel
    variant: Variant
    window: Window
    facts: Witness


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one variant: figures, or the reason why there are none."""

    head: Head
    variant: str
    figures: Figures | None
    reason: str = ""


def _case(tiny: TinyModel, variant: Variant) -> Case:
    first = next(tiny.model.parameters())
    made = window_for(tiny.model, tiny.head.task, variant)
    window = type(made)(tuple(copy_of(m, first.device, first.dtype) for m in made.microbatches))
    return Case(tiny, variant, window, witness(tiny.model, window))


def prepare(head: Head, variant: Variant, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Case:
    """The head's smallest model that builds and runs this variant.

    Raises:
        BuildError: where none does.
    """
    failure = ""
    for tiny in builds(head, variant.problem, dtype):
        tiny.model.to(device)
        try:
            return _case(tiny, variant)
        except NotImplementedError as error:
            raise BuildError(str(error)) from error
        except Exception as error:  # sizes may clash as late as in the forward; the next plan may fit
            failure = failure or f"{type(error).__name__}: {str(error)[:200]}"
    raise BuildError(failure)


def measure_head(
    head: Head, *, drive: Callable[..., Driven] = drive_trainer, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> list[Outcome]:
    """The figures of every variant of a head."""
    outcomes = []
    cases: dict[Problem | None, TinyModel] = {}
    for variant in variants(head.task):
        try:
            tiny = cases.get(variant.problem)
            case = _case(tiny, variant) if tiny is not None else prepare(head, variant, dtype, device)
            cases[variant.problem] = case.tiny
            driven = drive(case.tiny.model, case.window)
        except Exception as error:  # whatever stops one variant is its reason; the others still run
            outcomes.append(Outcome(head, variant.name, None, f"{type(error).__name__}: {str(error)[:300]}"))
            continue
        outcomes.append(Outcome(head, variant.name, compare(driven.vector, case.facts, driven.logged)))
    return outcomes
