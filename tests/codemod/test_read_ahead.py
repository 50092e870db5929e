"""Loops over a DeepSpeed engine are mended and run with a stand-in for it: they meet the reference."""

from __future__ import annotations

import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gafixer.accumulate import WithNumItems  # noqa: E402 - it imports torch
from gafixer.codemod.read_ahead import private_form  # noqa: E402 - beside the other
from gafixer.settings import Strategy  # noqa: E402 - the same
from tests.codemod.engines import LOOPS  # noqa: E402 - the same
from tests.codemod.fixer import fix  # noqa: E402 - the same
from tests.codemod.loops import HEAD, WHOLE, batches, run  # noqa: E402 - the same
from tests.codemod.loops import LOOPS as PLAIN  # noqa: E402 - the same
from tests.codemod.processes import told  # noqa: E402 - the same

PARITY, FAULT = 1e-6, 1e-3

loops = pytest.mark.parametrize("name", LOOPS)


@functools.cache
def _run(mended: bool, processes: int, *arguments: str) -> dict[str, list[float]]:
    sources = {name: fix(text, unsafe=True) if mended else text for name, text in LOOPS.items()}
    found: dict[str, list[float]] = told(["tests.codemod.engines", *arguments], sources, processes)
    return found


@loops
def test_misses_the_reference_before(name: str) -> None:
    errors = _run(False, 1)[name]
    assert len(errors) == 2
    assert max(errors) > FAULT


@loops
@pytest.mark.parametrize("processes", [1, 2])
def test_meets_the_reference(name: str, processes: int) -> None:
    errors = _run(True, processes)[name]
    assert len(errors) == 2
    assert max(errors) < PARITY


@loops
def test_windows_go_on_from_epoch_to_epoch(name: str) -> None:
    """Of nine microbatches in windows of four the third window has one of the first epoch: its parts are two counts."""
    errors = _run(True, 1, "--batches", "9", "--epochs", "2")[name]
    assert len(errors) == 4
    assert max(errors[:2] + errors[3:]) < PARITY
    assert PARITY < errors[2] < 0.5


@loops
def test_a_second_run_changes_nothing(name: str) -> None:
    once = fix(LOOPS[name], unsafe=True)
    assert once != LOOPS[name]
    assert fix(once, unsafe=True) == once


@loops
def test_only_on_request(name: str) -> None:
    assert fix(LOOPS[name]) == LOOPS[name]


# -- plain loops, on request ------------------------------------------------------------------------------------------

#: Backward, count and step stand in several functions, windows don't end by a guard in the loop, or the loss is one of
#: several: not read ahead.
OUT_OF_SIGHT = {
    "nested",
    "two_arms",
    "methods",
    "two_losses",
    "a_method_called_train",
    "a_function_for_each_microbatch",
    "a_function_for_each_microbatch_of_a_window",
}


@pytest.mark.parametrize("name", [name for name in PLAIN if name not in OUT_OF_SIGHT])
@pytest.mark.parametrize("steps", [1, 4])
def test_plain_loops_on_request(name: str, steps: int) -> None:
    fixed = fix(HEAD + PLAIN[name], unsafe=True, strategy=Strategy.READ_AHEAD)
    assert "_WithNumItems" in fixed
    loader = batches(8 if name in WHOLE else 10)
    before, said = run(PLAIN[name], steps, loader)
    after, says = run(fixed, steps, loader)
    assert len(after) == len(before)
    assert max(after) < PARITY
    assert says == pytest.approx(said, rel=PARITY, nan_ok=True)
    assert fix(fixed, unsafe=True, strategy=Strategy.READ_AHEAD) == fixed


@pytest.mark.parametrize("name", sorted(OUT_OF_SIGHT))
def test_what_cannot_be_read_ahead_stays(name: str) -> None:
    source = HEAD + PLAIN[name]
    assert fix(source, unsafe=True, strategy=Strategy.READ_AHEAD) == source


# -- the loader that brings counts -----------------------------------------------------------------------------------


@functools.cache
def _private() -> Any:
    scope: dict[str, Any] = {}
    text = "import itertools\nimport torch\nimport torch.distributed as dist\n\n\n" + private_form()
    exec(compile(text, "private", "exec"), scope)
    return scope["_WithNumItems"]


@pytest.fixture(params=["public", "private"])
def counted(request: pytest.FixtureRequest) -> Any:
    return WithNumItems if request.param == "public" else _private()


def test_each_batch_comes_with_its_windows_count(counted: Any) -> None:
    loader = counted([1, 2, 3, 4, 5], 2, lambda batch: batch)
    assert list(loader) == [(1, 3.0), (2, 3.0), (3, 7.0), (4, 7.0), (5, 10.0)]
    # The window that the first pass left open goes on: its second half weighs by its length, too.
    assert next(iter(loader)) == (1, 2.0)


def test_epochs_may_restart_windows(counted: Any) -> None:
    loader = counted([1, 2, 3], 2, lambda batch: batch, restarts=True)
    assert list(loader) == [(1, 3.0), (2, 3.0), (3, 3.0)]
    assert next(iter(loader)) == (1, 3.0)


def test_no_items_divide_by_one(counted: Any) -> None:
    assert list(counted([0, 0], 2, lambda batch: batch)) == [(0, 1.0), (0, 1.0)]


def test_the_loader_is_there(counted: Any) -> None:
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    data = TensorDataset(torch.arange(10))
    sampler: DistributedSampler[Any] = DistributedSampler(data, num_replicas=2, rank=0, shuffle=True)
    loader = counted(DataLoader(data, batch_size=1, sampler=sampler), 2, len)
    assert len(loader) == 5
    loader.sampler.set_epoch(3)
    assert sampler.epoch == 3
    assert loader.dataset is data


def test_iterable_datasets_have_no_length(counted: Any) -> None:
    from tqdm import tqdm

    loader = counted((n for n in range(3)), 2, lambda batch: batch)
    with pytest.raises(TypeError):
        len(loader)
    assert [batch for batch, _ in tqdm(loader, disable=True)] == [0, 1, 2]


def test_nothing_beyond_the_window_is_read(counted: Any) -> None:
    """At a window's end a sampler that can be resumed is where it would be without."""
    read: list[int] = []

    def source() -> Any:
        for n in range(10):
            read.append(n)
            yield n

    for drawn, _ in enumerate(counted(source(), 4, lambda batch: batch), 1):
        assert len(read) == min(-(-drawn // 4) * 4, 10)
