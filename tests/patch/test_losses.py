"""Custom losses keep working: each meets the gradient that the same loss has on the whole window."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

import pytest
import torch
import transformers
from packaging.version import Version
from transformers import Trainer

from gafixer.parity.drive import drive_trainer
from gafixer.parity.figures import relative_error
from gafixer.patch import messages
from tests.patch import losses, tiny

if TYPE_CHECKING:
    from collections.abc import Callable

RELEASE = Version(transformers.__version__)
FUNCTIONS = pytest.mark.skipif(Version("4.46") > RELEASE, reason="compute_loss_func came with 4.46")
SWITCH = pytest.mark.skipif(Version("5.19") > RELEASE, reason="the official switch came with 5.19")

pytestmark = pytest.mark.usefixtures("patched")


def own(rule: Callable[..., torch.Tensor]) -> Callable[[Any, dict[str, torch.Tensor]], torch.Tensor]:
    def loss_of(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        labels = batch.pop("labels")
        return rule(model(**batch), labels)

    return loss_of


def on_top(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    loss: torch.Tensor = model(**batch).loss
    return loss + losses.penalty(model)


def assert_parity(
    model: Any, trainer_class: Any, loss_of: Any, batch: dict[str, torch.Tensor] | None = None, **arguments: Any
) -> None:
    batch = tiny.tokens() if batch is None else batch
    right, loss = tiny.reference(model, batch, loss_of)
    driven = drive_trainer(model, tiny.window(batch), trainer_class=trainer_class, **arguments)
    assert relative_error(driven.vector, right) < 2e-6
    assert driven.logged == pytest.approx(loss, abs=1e-4)  # older releases round to four places


@FUNCTIONS
@pytest.mark.parametrize(
    "rule", [losses.mean, losses.counted, losses.counted_as_number, losses.masked, losses.weighted, losses.no_labels]
)
def test_compute_loss_func(rule: Callable[..., torch.Tensor]) -> None:
    assert_parity(tiny.llama(), functools.partial(Trainer, compute_loss_func=rule), own(rule))


def test_a_loss_that_nothing_is_known_of_is_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "_said", set())  # another test may have heard it
    with caplog.at_level(logging.INFO, logger="gafixer.patch"):
        drive_trainer(tiny.llama(), tiny.window(tiny.tokens()), trainer_class=losses.OwnWithoutLabels)
    assert "LlamaForCausalLM: no loss call on the batch's targets was seen: samples weigh it" in caplog.text


@pytest.mark.parametrize("trainer_class", [losses.Own, losses.OwnCounted, losses.OwnWithoutLabels])
def test_own_compute_loss(trainer_class: type[losses.Own]) -> None:
    assert_parity(tiny.llama(), trainer_class, own(trainer_class.rule))


def test_own_compute_loss_without_the_count_in_its_signature() -> None:
    assert_parity(tiny.llama(), losses.OwnOld, own(losses.mean))


@pytest.mark.parametrize("kind", ["honours the count", "drops it"])
def test_own_compute_loss_on_top_of_the_trainers(kind: str) -> None:
    if kind == "honours the count":
        assert_parity(tiny.llama(), losses.OnTop, on_top)
    else:
        batch = tiny.tokens(classes=3)
        assert_parity(tiny.bert(tiny.BertForTokenClassification), losses.OnTop, on_top, batch)


@pytest.mark.parametrize("shifts", [True, False])
def test_label_smoothing(shifts: bool) -> None:
    from transformers.trainer_pt_utils import LabelSmoother

    smooth = LabelSmoother(epsilon=0.1)

    def loss_of(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        labels = batch.pop("labels")
        found: torch.Tensor = smooth(model(**batch), labels, shift_labels=shifts)
        return found

    model = tiny.llama() if shifts else tiny.bert(tiny.BertForTokenClassification)
    batch = tiny.tokens(classes=60 if shifts else 3)
    assert_parity(model, Trainer, loss_of, batch, label_smoothing_factor=0.1)


def test_a_loss_registered_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = pytest.importorskip("transformers.loss.loss_utils").LOSS_MAPPING

    def smooth_loss(logits: torch.Tensor, labels: torch.Tensor, vocab_size: int, **_: Any) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(logits.view(-1, vocab_size), labels.view(-1), label_smoothing=0.2)

    monkeypatch.setitem(registry, "Smooth", smooth_loss)
    model = tiny.llama()
    model.loss_type = "Smooth"
    assert_parity(model, Trainer, None)


@SWITCH
@pytest.mark.parametrize(("switch", "expected"), [(True, "sum"), (False, "mean")])
def test_the_users_switch_is_obeyed_and_logged(switch: bool, expected: str, caplog: pytest.LogCaptureFixture) -> None:
    class Switched(losses.Own):
        loss_is_scaled_for_ga = switch

    model, window = tiny.llama(), tiny.window(tiny.tokens())
    parts = [tiny.reference(model, dict(m), own(losses.mean))[0] for m in window.microbatches]
    total = torch.stack(parts).sum(0)
    with caplog.at_level(logging.INFO, logger="gafixer.patch"):
        driven = drive_trainer(model, window, trainer_class=Switched)
    right = total if expected == "sum" else total / len(parts)
    assert relative_error(driven.vector, right) < 2e-6
    assert f"loss_is_scaled_for_ga = {switch} is obeyed" in caplog.text


def test_an_all_ignored_microbatch_adds_nothing() -> None:
    batch = tiny.tokens(classes=3)
    batch["labels"][:3] = -100
    for model in (tiny.llama(), tiny.bert(tiny.BertForTokenClassification)):
        assert_parity(model, Trainer, None, batch)
    batch = {**tiny.tokens(), "next_sentence_label": torch.arange(8) % 2}
    batch["labels"][:3] = -100
    assert_parity(tiny.bert(tiny.BertForPreTraining), Trainer, None, batch)


def test_a_router_loss_is_averaged_over_microbatches() -> None:
    model = tiny.mixtral(output_router_logits=True)
    batch = tiny.tokens()
    window = tiny.window(batch)

    def term(name: str, microbatch: Any) -> torch.Tensor:
        outputs = model(**microbatch)
        router = model.router_aux_loss_coef * outputs.aux_loss
        chosen: torch.Tensor = router if name == "router" else outputs.loss - router
        return chosen

    tokens, _ = tiny.reference(model, batch, lambda m, b: term("tokens", b))
    routers = [tiny.reference(model, dict(m), lambda _, b: term("router", b))[0] for m in window.microbatches]
    driven = drive_trainer(model, window)
    assert relative_error(driven.vector, tokens + torch.stack(routers).mean(0)) < 2e-6
