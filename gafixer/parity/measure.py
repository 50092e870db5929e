"""Head by head, variant by variant: build, witness, drive, compare."""

from __future__ import annotations

import contextlib
import enum
import importlib
import inspect
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import torch

from gafixer.parity.batches import Variant, variants, window_for
from gafixer.parity.drive import drive_trainer
from gafixer.parity.figures import Figures, compare
from gafixer.parity.inputs import Feed, Style, number
from gafixer.parity.models import BuildError, TinyModel, builds
from gafixer.parity.ranks import drive_launched, drive_ranks
from gafixer.parity.reference import NoLossError, Witness, witness
from gafixer.parity.windows import Window, copy_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from gafixer.data.heads import Contract
    from gafixer.parity.drive import Driven
    from gafixer.parity.heads import Head
    from gafixer.parity.tasks import Problem

__all__ = ["Case", "Outcome", "Setting", "Trouble", "cases", "drive_case", "measure_head", "patch", "prepare", "said"]


# Transformers' own words where a text has no tokens for what the image became.
_UNMARKED = re.compile(r"(Image|Audio|Video) features and \w+ tokens do not match,? tokens:? \d+, features:? (\d+)")
_LIBRARY = re.compile(r"requires the (\w+) library|No module named '([\w.]+)'")


@dataclass(frozen=True, slots=True)
class Case:
    """A model that runs, its window and what is known of it."""

    tiny: TinyModel
    variant: Variant
    feed: Feed
    window: Window
    facts: Witness


class Trouble(enum.Enum):
    """Where a variant stopped that has no figures."""

    NOT_BUILT = "not built"
    NOT_DRIVEN = "not driven"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one variant: figures, or where and why it stopped; and how the loss counts, where that was asked."""

    head: Head
    variant: str
    figures: Figures | None
    trouble: Trouble | None = None
    reason: str = ""
    patched: bool = False
    problem: Problem | None = None
    contract: Contract | None = None

    @property
    def ok(self) -> bool:
        """Whether the variant meets the bound."""
        return self.figures is not None and self.figures.ok


@dataclass(frozen=True, slots=True)
class Setting:
    """How every head is run: numbers, place, and how many microbatches make a window over how many ranks.

    `launched` says that the ranks are there, each in a process of its own; otherwise they are forked for the step.
    """

    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    steps: int = 4
    processes: int = 1
    compiled: bool = False
    launched: bool = False


def _case(tiny: TinyModel, variant: Variant, feed: Feed, setting: Setting) -> Case:
    count = setting.steps * setting.processes
    made = window_for(tiny.model, tiny.head.task, variant, microbatches=count, feed=feed)
    window = Window(tuple(copy_of(m, setting.device, setting.dtype) for m in made.microbatches))
    facts = witness(tiny.model.to(setting.device), window)
    if facts.random:
        raise ValueError("two forwards of the same batch differ: the head draws random numbers")
    return Case(tiny, variant, feed, window, facts)


def _fed(tiny: TinyModel, variant: Variant, style: Style, setting: Setting) -> Case:
    """The case, with as many tokens for images or sounds as the model says that it wants."""
    try:
        return _case(tiny, variant, Feed(style), setting)
    except (RuntimeError, ValueError) as error:
        asked = _UNMARKED.search(str(error))
        if asked is None:
            raise
        kind, features = asked[1].lower(), int(asked[2])
    plain = window_for(tiny.model, tiny.head.task, variant, microbatches=setting.steps * setting.processes)
    marks = features // sum(plain.sizes)
    try:
        return _case(tiny, variant, Feed(style, kind, marks), setting)
    except (RuntimeError, ValueError):  # some count the features' elements
        width = number(tiny.config, "hidden_size", "d_model", default=1)
        return _case(tiny, variant, Feed(style, kind, marks // width), setting)


def prepare(head: Head, variant: Variant, setting: Setting = Setting()) -> Case:
    """The head's smallest model that builds and runs this variant.

    Raises:
        BuildError: where none does.
    """
    failure = ""
    for tiny in builds(head, variant.problem, setting.dtype):
        silent = None
        for style in Style:
            try:
                return _fed(tiny, variant, style, setting)
            except (ImportError, NotImplementedError) as error:  # no size helps
                raise BuildError(said(error)) from error
            except NoLossError as error:
                silent = error
            except Exception as error:  # sizes may clash as late as in the forward; the next plan may fit
                failure = failure or said(error)
        if silent is not None:
            raise BuildError(str(silent)) from silent
    raise BuildError(failure)


def _sees(case: Case) -> bool:
    """Whether a model that reads text alone could be shown images too."""
    window, forward = case.window.microbatches[0], inspect.signature(type(case.tiny.model).forward).parameters
    return "pixel_values" in forward and "input_ids" in window and "pixel_values" not in window


def cases(head: Head, setting: Setting = Setting()) -> Iterator[Case | Outcome]:
    """Every variant of a head, ready to be driven; an outcome instead where it can't be built."""
    last: dict[Problem | None, Case] = {}
    for variant in variants(head.task):
        like = last.get(variant.problem)
        if variant.images and (like is None or not _sees(like)):
            continue
        try:
            match like:
                case None:
                    case = prepare(head, variant, setting)
                case Case() if variant.images:
                    case = _fed(like.tiny, variant, Style.WITH_IMAGES, setting)
                case Case():
                    case = _case(like.tiny, variant, like.feed, setting)
        except Exception as error:  # whatever stops one variant is its reason; the others still run
            yield Outcome(head, variant.name, None, Trouble.NOT_BUILT, said(error), problem=variant.problem)
            continue
        last[variant.problem] = case
        yield case


def drive_case(case: Case, setting: Setting = Setting(), *, patched: bool = False) -> Outcome:
    """One step of the installed `Trainer` over the case's window, as it is or with the patch."""
    outcome = Outcome(case.tiny.head, case.variant.name, None, patched=patched, problem=case.variant.problem)
    try:
        driven = _drive(case, setting, patched)
    except Exception as error:  # the model runs by itself, so this is the trainer's doing, or the patch's
        return replace(outcome, trouble=Trouble.NOT_DRIVEN, reason=said(error))
    return replace(outcome, figures=compare(driven.vector, case.facts, driven.logged))


def _drive(case: Case, setting: Setting, patched: bool) -> Driven:
    with patch(patched):
        if setting.launched:
            return drive_launched(case.tiny.model, case.window, setting.processes, torch_compile=setting.compiled)
        if setting.processes > 1:
            return drive_ranks(case.tiny.model, case.window, setting.processes)
        return drive_trainer(case.tiny.model, case.window, torch_compile=setting.compiled)


def patch(on: bool) -> AbstractContextManager[None]:
    """The patch, on or off. Importing it applies it, so off needs no import, but a way out once there was one."""
    if not on and "gafixer.patch" not in sys.modules:
        return contextlib.nullcontext()
    return cast("AbstractContextManager[None]", importlib.import_module("gafixer.patch").patched(on))


def measure_head(head: Head, setting: Setting = Setting(), *, patched: bool = False) -> Iterator[Outcome]:
    """The figures of every variant of a head, one by one."""
    for case in cases(head, setting):
        match case:
            case Outcome():
                yield case
            case Case():
                yield drive_case(case, setting, patched=patched)


def said(error: Exception) -> str:
    """An error in one line."""
    match error:
        case ImportError() if library := _LIBRARY.search(str(error)):
            return f"needs {library[1] or library[2]}, which is not installed"
        case BuildError() | NotImplementedError() if str(error):
            words = str(error)
        case _:
            words = f"{type(error).__name__}: {error}"
    return " ".join(words.split())[:300]
