"""Each rule's scripts are run: the faulty one misses the reference gradient, the right one meets it."""

from __future__ import annotations

import dataclasses
import itertools
import os
import runpy
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")
accelerate_state = pytest.importorskip("accelerate.state")

from tests.rules.references import REFERENCES, Reference, Run, Window  # noqa: E402 - they import torch
from tests.rules.scripts import Trace, load_script, run_script, script_folder  # noqa: E402 - the same

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import Tensor, nn

PARITY = 1e-6  # float64: rounding stays far below
FAULT = 1e-3  # the smallest relative error that counts as a miss

# GA402 needs ranks, and has its own test.
ALONE = [code for code in REFERENCES if code != "GA402"]
# Their gradients are right; what is wrong is checked by its own figure.
RIGHT_GRADIENTS = {"GA205", "GA501"}
RUNS = [pytest.param(code, run, id=f"{code}-{run}") for code in ALONE for run in REFERENCES[code].runs]

scheduler_warns = pytest.mark.filterwarnings(
    "ignore:Detected call of `lr_scheduler.step:UserWarning"  # the fault of GA205, as torch sees its first microbatch
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums of the same order, and no fight for the cores; Accelerate forgets the last run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    _forget_accelerator()


def _forget_accelerator() -> None:
    for name in ("AcceleratorState", "GradientState", "PartialState"):
        getattr(accelerate_state, name)._reset_state()


@pytest.mark.parametrize(("code", "run"), RUNS)
def test_good_meets_the_reference(code: str, run: Run) -> None:
    trace = run_script(load_script(code, "good"), REFERENCES[code], run)
    assert len(trace.errors) == trace.expected
    assert trace.worst < PARITY


@scheduler_warns
@pytest.mark.parametrize(("code", "run"), RUNS)
def test_bad_misses_the_reference(code: str, run: Run) -> None:
    trace = run_script(load_script(code, "bad"), REFERENCES[code], run)
    if run.wrong and code not in RIGHT_GRADIENTS:
        assert trace.worst > FAULT
    else:
        assert trace.worst < PARITY


@scheduler_warns
@pytest.mark.parametrize("run", REFERENCES["GA205"].runs, ids=str)
def test_schedule_advances_with_updates(run: Run) -> None:
    def advances(name: str) -> tuple[int, int]:
        trace = run_script(load_script("GA205", name), REFERENCES["GA205"], run)
        (scheduler,) = (p for p in trace.pieces if isinstance(p, torch.optim.lr_scheduler.LRScheduler))
        return scheduler.last_epoch, len(trace.errors)

    advanced, updates = advances("good")
    assert advanced == updates
    advanced, updates = advances("bad")
    assert advanced == updates * run.arguments.get("steps", 4)


@pytest.mark.parametrize("run", REFERENCES["GA501"].runs, ids=str)
def test_reported_loss(run: Run) -> None:
    def reported(name: str) -> Trace:
        return run_script(load_script("GA501", name), REFERENCES["GA501"], run)

    trace = reported("good")
    assert trace.result == pytest.approx(trace.losses, rel=PARITY)
    trace = reported("bad")
    steps = run.arguments.get("steps", 4)
    assert trace.result == pytest.approx([loss / steps for loss in trace.losses], rel=PARITY)


def _rank(rank: int, ranks: int, folder: str) -> None:
    """One process of the GA402 runs: leaves the worst error of every script and run as a file."""
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)

    def gather(batches: list[Any]) -> list[Any]:
        everywhere: list[Any] = [None] * ranks
        dist.all_gather_object(everywhere, batches)
        return [list(microbatch) for microbatch in zip(*everywhere, strict=True)]

    reference = _over_ranks(REFERENCES["GA402"])
    worst = {}
    for name, run in itertools.product(("bad", "good"), reference.runs):
        # One rank has nothing to score in that microbatch, the others have.
        here = run if rank == 0 else dataclasses.replace(run, blank=None)
        worst[f"{name}-{run}"] = run_script(load_script("GA402", name), reference, here, gather=gather).worst
    torch.save(worst, f"{folder}/{rank}.pt")
    dist.barrier()
    os._exit(0)  # torch's DDP can end with Python's lock held, waiting for a gloo thread that wants it


def _over_ranks(reference: Reference) -> Reference:
    """The same reference for microbatches that are lists, one entry a rank, and a model that torch has wrapped."""

    def loss(model: nn.Module, window: Window) -> Tensor:
        assert isinstance(model.module, torch.nn.Module)
        return reference.loss(model.module, [batch for ranks in window for batch in ranks])

    return dataclasses.replace(reference, loss=loss)


def test_counts_over_ranks(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_rank, args=(2, str(tmp_path)), nprocs=2)
    for rank in range(2):
        worst = torch.load(tmp_path / f"{rank}.pt")
        assert len(worst) == 2 * len(REFERENCES["GA402"].runs)
        for name, error in worst.items():
            assert error < PARITY if name.startswith("good") else error > FAULT, name


@scheduler_warns
@pytest.mark.parametrize("name", ["bad", "good"])
@pytest.mark.parametrize("code", ALONE)
def test_runs_as_a_script(code: str, name: str) -> None:
    module = runpy.run_path(str(script_folder(code) / f"{name}.py"), run_name="__main__")
    assert callable(module["main"])
