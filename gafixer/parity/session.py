"""A run of `verify` without its command line: which heads, how, one after the other, each in a process of its own.

Needs torch, transformers and accelerate only, so that a bare machine with a GPU can run it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import math
import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gafixer.parity.divides import who_divides
from gafixer.parity.ranks import Launch
from gafixer.parity.runner import run_heads
from gafixer.parity.verify import work_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gafixer.parity.divides import Division
    from gafixer.parity.heads import Head
    from gafixer.parity.measure import Setting
    from gafixer.parity.runner import HeadReport

__all__ = ["Request", "divisions", "measure", "quieten"]

_USED_BY_MOST = ("generation.utils", "modeling_layers", "masking_utils")


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure: the heads, how each is run, with the patch or without, `jobs` at a time.

    No head is begun after `until`, and those that run then are ended; seconds of the monotonic clock.
    """

    heads: Sequence[Head]
    setting: Setting
    patch: bool = True
    contracts: bool = False
    jobs: int = 1
    timeout: float = 120.0
    until: float = math.inf


def quieten() -> None:
    """Set the process up: libraries announce themselves and warn about tiny models; only figures are wanted."""
    import transformers

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)  # heads are tiny, and forked workers must not share a thread pool
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    # Imported lazily by name: paid once here, not by every worker.
    _ = transformers.Trainer
    for name in _USED_BY_MOST:
        if importlib.util.find_spec(f"transformers.{name}"):
            importlib.import_module(f"transformers.{name}")


def measure(
    request: Request,
    *,
    started: Callable[[Head], None] = lambda head: None,
    tell: Callable[[HeadReport], None] = lambda report: None,
) -> list[HeadReport]:
    """The reports of all heads; `started` and `tell` hear of each as it begins and ends."""
    work = work_with(request.setting, request.patch, contracts=request.contracts)
    launch = Launch.found()
    if launch is not None:
        work = launch.wrapped(work)
    reports = []
    for report in run_heads(
        request.heads,
        work=work,
        jobs=request.jobs,
        timeout=request.timeout,
        until=request.until,
        started=started,
    ):
        reports.append(report)
        tell(report)
    return reports


def divisions() -> tuple[Division, ...]:
    """Who divides in the installed releases: one rank's affair, even where several were launched."""
    with _alone():
        return who_divides()


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """As if no launcher had started this process."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)
