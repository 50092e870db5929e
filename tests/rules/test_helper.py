"""The helper that right scripts carry: one text, and what it promises."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")

from tests.rules.scripts import RULES, load_script  # noqa: E402 - it imports torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

NAME = "_divide_gradients"


def _helper(path: Path) -> str | None:
    source = path.read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == NAME:
            return ast.get_source_segment(source, node)
    return None


@pytest.fixture(params=["GA101", "GA402"])
def divide(request: pytest.FixtureRequest) -> Callable[..., None]:
    """The form for one process, and that for ranks in a run of one process."""
    helper: Callable[..., None] = getattr(load_script(request.param, "good"), NAME)
    return helper


def _with_gradient(gradient: Any) -> Any:
    parameter = torch.nn.Parameter(torch.zeros(gradient.shape, dtype=gradient.dtype))
    parameter.grad = gradient
    return parameter


def test_one_text_everywhere() -> None:
    texts = {path.parent.name[:5]: _helper(path) for path in sorted(RULES.glob("GA*/good.py"))}
    with_ranks = texts.pop("GA402")
    assert with_ranks is not None
    assert "all_reduce" in with_ranks
    assert len({text for text in texts.values() if text is not None}) == 1


@pytest.mark.parametrize("count", [4, 4.0, torch.tensor(4), torch.tensor(4.0)], ids=repr)
def test_divides_by_a_number_or_a_tensor(divide: Callable[..., None], count: object) -> None:
    parameter = _with_gradient(torch.tensor([2.0, 8.0]))
    divide([parameter, torch.nn.Parameter(torch.zeros(3))], count)
    assert parameter.grad.tolist() == [0.5, 2.0]


def test_counts_below_one_are_kept(divide: Callable[..., None]) -> None:
    parameter = _with_gradient(torch.tensor([1.0]))
    divide([parameter], torch.tensor(0.25))  # the mass of class weights
    assert parameter.grad.tolist() == [4.0]


@pytest.mark.parametrize("count", [0, torch.tensor(0), torch.tensor(0.0)], ids=repr)
def test_no_items_leave_zero(divide: Callable[..., None], count: object) -> None:
    parameter = _with_gradient(torch.zeros(2))
    divide([parameter], count)
    assert parameter.grad.tolist() == [0.0, 0.0]


def test_sparse_gradients(divide: Callable[..., None]) -> None:
    table = torch.nn.Embedding(5, 2, sparse=True)
    table(torch.tensor([1, 1, 3])).sum().backward()
    assert table.weight.grad.is_sparse
    divide(table.parameters(), 2)
    assert table.weight.grad.to_dense().sum(1).tolist() == [0.0, 2.0, 0.0, 1.0, 0.0]


def test_large_counts_in_half_precision(divide: Callable[..., None]) -> None:
    parameter = _with_gradient(torch.full((2,), 60000.0, dtype=torch.float16))
    divide([parameter], torch.tensor(120000))  # more than float16 can hold
    assert parameter.grad.tolist() == [0.5, 0.5]


def test_the_callers_count_is_left_alone(divide: Callable[..., None]) -> None:
    count = torch.tensor(4)
    divide([_with_gradient(torch.ones(1))], count)
    assert count.item() == 4


def test_no_gradients_is_an_error(divide: Callable[..., None]) -> None:
    with pytest.raises(RuntimeError, match="no gradients to divide"):
        divide([torch.nn.Parameter(torch.zeros(1))], 4)
