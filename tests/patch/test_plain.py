"""Plain loops: a head that is handed the count returns sum / count."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gafixer.parity.figures import relative_error
from tests.patch import tiny

pytestmark = pytest.mark.usefixtures("patched")


def rounds(
    model: Any, batch: dict[str, torch.Tensor], count: Any, call: Any = None
) -> list[tuple[torch.Tensor, float]]:
    """Gradient and loss of a window in a plain loop, twice: observing, and knowing."""
    found = []
    model.train()
    for _ in range(2):
        loss = 0.0
        for microbatch in tiny.window(batch).microbatches:
            outputs = (model if call is None else call)(**microbatch, num_items_in_batch=count)
            outputs.loss.backward()
            loss += float(outputs.loss.detach())
        found.append((tiny.taken(model), loss))
    return found


def assert_parity(model: Any, batch: dict[str, torch.Tensor], count: Any, call: Any = None) -> None:
    right, loss = tiny.reference(model, batch)
    for vector, summed in rounds(model, batch, count, call):
        assert relative_error(vector, right) < 2e-6
        assert summed == pytest.approx(loss, rel=1e-5)


def scored(batch: dict[str, torch.Tensor], shifted: bool = False) -> int:
    labels = batch["labels"][:, 1:] if shifted else batch["labels"]
    return int((labels != -100).sum())


@pytest.mark.parametrize("kind", [tiny.BertForMaskedLM, tiny.BertForTokenClassification])
def test_tokens(kind: Any) -> None:
    batch = tiny.tokens(classes=3)
    assert_parity(tiny.bert(kind), batch, scored(batch))


def test_next_tokens() -> None:
    batch = tiny.tokens()
    assert_parity(tiny.llama(), batch, torch.tensor(scored(batch, shifted=True)))


@pytest.mark.parametrize(
    ("problem", "classes", "labels", "count"),
    [
        ("single_label_classification", 3, torch.arange(8) % 3, 8),
        ("multi_label_classification", 3, (torch.arange(24).view(8, 3) % 2).float(), 24),
        ("regression", 1, torch.linspace(-1, 1, 8), 8),
    ],
)
def test_classes_of_three_problem_types(problem: str, classes: int, labels: torch.Tensor, count: int) -> None:
    model = tiny.bert(tiny.BertForSequenceClassification, num_labels=classes, problem_type=problem)
    assert_parity(model, tiny.batch_of(labels=labels), count)


def test_answers() -> None:
    batch = tiny.batch_of(start_positions=torch.arange(8), end_positions=torch.arange(8) + 2)
    assert_parity(tiny.bert(tiny.BertForQuestionAnswering, num_labels=2), batch, 8)


def test_a_compiled_head() -> None:
    batch = tiny.tokens(classes=3)
    model = tiny.bert(tiny.BertForTokenClassification)
    assert_parity(model, batch, scored(batch), torch.compile(model, backend="aot_eager"))


def test_other_terms_weigh_the_microbatchs_share_of_the_count() -> None:
    batch = {**tiny.tokens(), "next_sentence_label": torch.arange(8) % 2}
    model = tiny.bert(tiny.BertForPreTraining)
    count = scored(batch)
    right = 0.0
    for microbatch in tiny.window(batch).microbatches:
        right += float(model(**microbatch).loss.detach()) * scored(dict(microbatch)) / count
    for _, loss in rounds(model, batch, count):
        assert loss == pytest.approx(right, rel=1e-5)


def test_a_router_loss_weighs_the_same_share() -> None:
    batch = tiny.tokens()
    model = tiny.mixtral(output_router_logits=True)
    count = scored(batch, shifted=True)
    right = 0.0
    for microbatch in tiny.window(batch).microbatches:
        right += float(model(**microbatch).loss.detach()) * scored(dict(microbatch), shifted=True) / count
    for _, loss in rounds(model, batch, count):
        assert loss == pytest.approx(right, rel=1e-5)


def test_a_head_that_the_user_defined_and_never_heard_of_the_count() -> None:
    class Plain(tiny.BertForTokenClassification):  # type: ignore[no-untyped-call]  # of transformers
        def forward(self, input_ids: Any = None, attention_mask: Any = None, labels: Any = None) -> Any:
            return super().forward(input_ids=input_ids, attention_mask=attention_mask, labels=labels)

    batch = tiny.tokens(classes=3)
    assert_parity(tiny.bert(Plain), batch, scored(batch))


def test_an_all_ignored_microbatch_is_zero() -> None:
    batch = tiny.tokens(classes=3)
    batch["labels"][:3] = -100
    assert_parity(tiny.bert(tiny.BertForTokenClassification), batch, scored(batch))


def test_tuples_and_positional_arguments() -> None:
    batch = tiny.tokens(classes=3)
    model = tiny.bert(tiny.BertForTokenClassification)

    def call(input_ids: Any, attention_mask: Any, labels: Any, num_items_in_batch: Any) -> Any:
        out = model(input_ids, attention_mask, labels=labels, return_dict=False, num_items_in_batch=num_items_in_batch)
        assert isinstance(out, tuple)
        return type("Outputs", (), {"loss": out[0]})

    assert_parity(model, batch, scored(batch), call)


def test_without_the_count_nothing_changes() -> None:
    batch = tiny.tokens(classes=3)
    model = tiny.bert(tiny.BertForTokenClassification)
    right = torch.nn.functional.cross_entropy(model(**batch).logits.view(-1, 3), batch["labels"].view(-1))
    assert torch.equal(model(**batch).loss, right)


def test_without_gradients_the_loss_is_the_same_and_keeps_no_graph() -> None:
    batch = tiny.tokens(classes=3)
    model = tiny.bert(tiny.BertForTokenClassification)
    mean = model(**batch).loss.item()
    with torch.no_grad():
        for _ in range(2):
            outputs = model(**batch, num_items_in_batch=2 * scored(batch))
            assert outputs.loss.item() == pytest.approx(mean / 2, rel=1e-6)
            assert not outputs.logits.requires_grad
