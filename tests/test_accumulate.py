"""The public functions: one process; ranks are in the codemod's own runs."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from gafixer import accumulate  # noqa: E402 - it imports torch

if TYPE_CHECKING:
    from collections.abc import Callable


def _parameter(*gradient: float) -> Any:
    parameter = torch.nn.Parameter(torch.zeros(len(gradient)))
    parameter.grad = torch.tensor(gradient)
    return parameter


def _accelerator(**other: object) -> Any:
    given = {"distributed_type": "NO", "num_processes": 2, "gradient_accumulation_steps": 4} | other
    return SimpleNamespace(reduce=lambda total, how: total * 2, **given)


@pytest.mark.parametrize("divide", [accumulate.divide_gradients, accumulate.divide_gradients_over_ranks])
@pytest.mark.parametrize("count", [4, torch.tensor(4), torch.tensor(4.0)], ids=repr)
def test_divides(divide: Callable[..., None], count: object) -> None:
    parameter = _parameter(2.0, 8.0)
    divide([parameter, torch.nn.Parameter(torch.zeros(1))], count)
    assert parameter.grad.tolist() == [0.5, 2.0]
    divide([parameter], 0)
    assert parameter.grad.tolist() == [0.5, 2.0]


def test_accelerated_undoes_its_division() -> None:
    parameter = _parameter(1.0)
    accumulate.divide_gradients_accelerated(_accelerator(), [parameter], 4)
    assert parameter.grad.tolist() == [1.0]  # 8 items of all, over 2 processes and 4 steps


def test_deepspeed_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="keeps its gradients"):
        accumulate.divide_gradients_accelerated(_accelerator(distributed_type="DEEPSPEED"), [_parameter(1.0)], 4)


@pytest.mark.parametrize("divide", [accumulate.divide_gradients, accumulate.divide_gradients_over_ranks])
def test_no_gradients_is_an_error(divide: Callable[..., None]) -> None:
    with pytest.raises(RuntimeError, match="no gradients"):
        divide([torch.nn.Parameter(torch.zeros(1))], 4)


def test_it_needs_no_libcst() -> None:
    code = "import sys, gafixer.accumulate; sys.exit('libcst' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
