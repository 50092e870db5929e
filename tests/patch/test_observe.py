"""What a loss did, read from its gradient: written by torch or by hand, with the count or without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn import functional

from gafixer.patch.items import MICROBATCHES, SAMPLES, ItemRule, View
from gafixer.patch.observe import Kind, LossContract, observe
from gafixer.patch.record import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

LABELS = torch.tensor([[1, 2, 0, -100], [2, -100, -100, -100]])
WHOLE = ItemRule("labels", View.WHOLE, -100)


def contract_of(loss_of: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]) -> LossContract:
    torch.manual_seed(0)
    logits = torch.randn(8, 3, requires_grad=True)
    handed = torch.tensor(11.0, requires_grad=True)
    with Recorder() as recorder:
        loss = loss_of(logits, LABELS.view(-1), handed)
    seen = observe(loss, recorder.calls, handed, {"labels": LABELS})
    parts = [*seen.shares, *([] if seen.rest is None else [seen.rest])]
    assert sum(float(part.detach()) for part in parts) == pytest.approx(float(loss.detach()), rel=1e-5)
    return seen.contract


def kinds(contract: LossContract) -> list[tuple[Kind, ItemRule | None]]:
    return [(term.kind, term.rule) for term in contract.terms]


def mean(logits: torch.Tensor, labels: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits, labels)


def summed_by_hand(logits: torch.Tensor, labels: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits, labels, reduction="sum") / (labels != -100).sum()


def masked_by_hand(logits: torch.Tensor, labels: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    mask = (labels != -100).float()
    return (functional.cross_entropy(logits, labels, reduction="none") * mask).sum() / mask.sum()


def through_nll(logits: torch.Tensor, labels: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return functional.nll_loss(logits.log_softmax(-1), labels)


@pytest.mark.parametrize("loss_of", [mean, summed_by_hand, masked_by_hand, through_nll])
def test_means_over_items_however_written(
    loss_of: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    contract = contract_of(loss_of)
    assert kinds(contract) == [(Kind.MEAN, WHOLE)]
    assert contract.rest is None
    assert contract.settled


def test_a_mean_over_every_place() -> None:
    contract = contract_of(lambda x, y, n: functional.cross_entropy(x, y, reduction="none").mean())
    assert kinds(contract) == [(Kind.MEAN, ItemRule("labels", View.WHOLE))]


def test_a_sum_over_the_batch_size_is_a_mean_over_samples() -> None:
    contract = contract_of(lambda x, y, n: functional.cross_entropy(x, y, reduction="sum") / 2)
    assert kinds(contract) == [(Kind.MEAN, SAMPLES)]


def test_a_bare_sum() -> None:
    contract = contract_of(lambda x, y, n: functional.cross_entropy(x, y, reduction="sum"))
    assert kinds(contract) == [(Kind.SUM, WHOLE)]


@pytest.mark.parametrize("as_number", [False, True])
def test_a_loss_that_used_the_count_even_as_a_number(as_number: bool) -> None:
    def loss_of(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(x, y, reduction="sum") / (n.item() if as_number else n)

    contract = contract_of(loss_of)
    assert kinds(contract) == [(Kind.COUNTED, WHOLE)]
    assert contract.rest is None


def test_a_count_used_where_no_loss_call_shows() -> None:
    def loss_of(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        valid = y != -100
        return -x.log_softmax(-1)[valid].gather(1, y[valid, None]).sum() / n

    assert kinds(contract_of(loss_of)) == [(Kind.COUNTED, None)]


def test_a_remainder_beside_a_term() -> None:
    contract = contract_of(lambda x, y, n: mean(x, y, n) + 0.1 * x.pow(2).mean())
    assert kinds(contract) == [(Kind.MEAN, WHOLE)]
    assert contract.rest == MICROBATCHES


def test_a_count_with_a_remainder() -> None:
    contract = contract_of(lambda x, y, n: functional.cross_entropy(x, y, reduction="sum") / n + x.pow(2).mean())
    assert kinds(contract) == [(Kind.COUNTED, WHOLE)]
    assert contract.rest == MICROBATCHES


def test_a_loss_without_any_call_that_is_known() -> None:
    contract = contract_of(lambda x, y, n: x.pow(2).mean())
    assert contract.terms == ()
    assert contract.rest == SAMPLES


def test_calls_that_do_not_reach_the_loss_are_no_terms() -> None:
    def loss_of(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        functional.cross_entropy(x, y)
        return x.pow(2).mean()

    assert contract_of(loss_of).terms == ()


def test_no_items_leave_the_contract_open() -> None:
    logits = torch.randn(4, 3, requires_grad=True)
    labels = torch.full((1, 4), -100)
    with Recorder() as recorder:
        loss = functional.cross_entropy(logits, labels.view(-1))
    assert not observe(loss, recorder.calls, None, {"labels": labels}).contract.settled


def test_two_targets_with_the_same_values_get_a_source_each() -> None:
    logits = torch.randn(2, 4, requires_grad=True)
    same = torch.tensor([1, 2])
    batch = {"start_positions": same, "end_positions": same.clone()}
    with Recorder() as recorder:
        loss = functional.cross_entropy(logits, same) + functional.cross_entropy(-logits, same)
    contract = observe(loss, recorder.calls, None, batch).contract
    assert [term.rule.source for term in contract.terms if term.rule] == ["start_positions", "end_positions"]
    assert not contract.settled


def test_a_head_that_adds_to_its_loss_in_place() -> None:
    def loss_of(x: torch.Tensor, y: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        loss = functional.cross_entropy(x, y)
        loss += 0.1 * x.pow(2).mean()
        return loss

    contract = contract_of(loss_of)
    assert kinds(contract) == [(Kind.MEAN, WHOLE)]
    assert contract.rest == MICROBATCHES


def test_hooks_of_the_forward_stay_silent_while_its_loss_is_read() -> None:
    heard: list[torch.Tensor] = []
    logits = torch.randn(8, 3, requires_grad=True)
    with Recorder() as recorder:
        loss = mean(logits, LABELS.view(-1), torch.tensor(1.0))
        loss.register_hook(heard.append)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    observe(loss, recorder.calls, None, {"labels": LABELS})
    assert heard == []
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert len(heard) == 1


def test_the_count_that_is_handed_over_ties_no_layers_together() -> None:
    handed = torch.tensor(11.0, requires_grad=True)
    with Recorder(handed) as recorder:
        count = recorder.count
        assert count is not None
        assert not count.requires_grad
        assert (torch.ones(()) / count).requires_grad
        assert (torch.ones(()) / count.to(torch.float64)).requires_grad
    assert not (torch.ones(()) / count).requires_grad
