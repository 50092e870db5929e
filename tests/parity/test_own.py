"""`check` and `assert_parity` on training steps of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  # torch's own documentation calls it so
from torch import nn

from gafixer.parity import ParityError, Verdict, assert_parity, check

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

IGNORED = -100
COUNTS = ((6, 5), (1, 1), (2, 1))
Batch = dict[str, torch.Tensor]


def window(length: int = 6) -> list[Batch]:
    generator = torch.Generator().manual_seed(0)
    batches = []
    for counts in COUNTS:
        labels = torch.randint(3, (2, length), generator=generator)
        for row, count in enumerate(counts):
            labels[row, count:] = IGNORED
        batches.append({"x": torch.randn(2, length, 4, generator=generator), "labels": labels})
    return batches


def loss_of(model: Any, batch: Any, reduction: str = "mean") -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]).flatten(0, 1), batch["labels"].flatten(), reduction=reduction)


def step_for(
    model: nn.Module, weigh: Callable[[Any, Sequence[Any]], torch.Tensor], steps: int = 1
) -> Callable[[Sequence[Any]], float]:
    def step(batches: Sequence[Any]) -> float:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        total = 0.0
        for batch in batches:
            loss = weigh(batch, batches)
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            total += loss.item()
        for _ in range(steps):
            optimizer.step()
        return total

    return step


def counted(model: nn.Module) -> Callable[[Sequence[Any]], float]:
    return step_for(
        model, lambda b, all_: loss_of(model, b, "sum") / sum(int((m["labels"] != IGNORED).sum()) for m in all_)
    )


def test_a_step_that_counts_has_parity_and_logs_the_window_s_loss() -> None:
    model = nn.Linear(4, 3)
    figures = assert_parity(counted(model), window(), model=model, loss=loss_of)
    assert figures.verdict is Verdict.PARITY
    assert figures.logged == pytest.approx(figures.loss, rel=1e-6)


def test_a_mean_of_means_is_told_with_its_figures() -> None:
    model = nn.Linear(4, 3)
    step = step_for(model, lambda batch, batches: loss_of(model, batch) / len(batches))
    with pytest.raises(ParityError, match=r"mean of means.*\n.*norm ratio") as caught:
        assert_parity(step, window(), model=model, loss=loss_of)
    assert caught.value.figures.cosine < 0.99


def test_a_step_that_divides_by_nothing_is_the_sum_of_means() -> None:
    model = nn.Linear(4, 3)
    figures = check(step_for(model, lambda batch, _: loss_of(model, batch)), window(), model=model, loss=loss_of)
    assert figures.verdict is Verdict.SUM_OF_MEANS


def test_the_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(6), nn.Linear(4, 3)).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    check(counted(model), window(), model=model, loss=loss_of)
    assert not model.training
    assert all(p.grad is None for p in model.parameters())
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_batch_normalisation_is_held_to_weighted_microbatches() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(6), nn.Linear(4, 3))
    figures = assert_parity(counted(model), window(), model=model, loss=loss_of)
    assert figures.held.value == "weighted microbatches"


def test_gradients_left_on_the_parameters_are_enough() -> None:
    model = nn.Linear(4, 3)
    assert_parity(
        step_for(model, lambda b, all_: loss_of(model, b, "sum") / 16, steps=0), window(), model=model, loss=loss_of
    )


def test_a_closure_s_gradient_is_taken_after_it_ran() -> None:
    model = nn.Linear(4, 3)

    def step(batches: Sequence[Any]) -> None:
        def closure() -> float:
            model.zero_grad()
            total = torch.stack([loss_of(model, batch, "sum") for batch in batches]).sum() / 16
            total.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            return total.item()

        torch.optim.SGD(model.parameters(), lr=0.1).step(closure)

    assert_parity(step, window(), model=model, loss=loss_of)


def test_two_optimizer_steps_are_not_one_window() -> None:
    model = nn.Linear(4, 3)
    with pytest.raises(ValueError, match="2 optimizer steps"):
        check(step_for(model, lambda batch, _: loss_of(model, batch), steps=2), window(), model=model, loss=loss_of)


def test_a_step_without_gradients_is_refused() -> None:
    with pytest.raises(ValueError, match="left no gradients"):
        check(lambda batches: None, window(), model=nn.Linear(4, 3), loss=loss_of)


def test_the_model_has_to_be_named() -> None:
    with pytest.raises(ValueError, match="model="):
        check(lambda batches: None, window(), loss=loss_of)


def test_randomness_is_refused() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    with pytest.raises(ValueError, match="dropout"):
        check(counted(model), window(), model=model, loss=loss_of)


def test_microbatches_padded_apart_need_the_whole_window() -> None:
    model = nn.Linear(4, 3)
    whole = {name: torch.cat([batch[name] for batch in window()]) for name in ("x", "labels")}
    short = [
        {name: value[:, : max(counts)] for name, value in batch.items()}
        for batch, counts in zip(window(), COUNTS, strict=True)
    ]
    with pytest.raises(ValueError, match="whole="):
        check(counted(model), short, model=model, loss=loss_of)
    assert_parity(counted(model), short, model=model, loss=loss_of, whole=whole)


def test_the_fixture_is_the_function(assert_parity: Callable[..., Any]) -> None:
    model = nn.Linear(4, 3)
    assert assert_parity(counted(model), window(), model=model, loss=loss_of).ok
