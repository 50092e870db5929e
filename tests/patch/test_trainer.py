"""Whole runs of the real Trainer: windows at the ends of epochs, evaluation, resuming, what a run leaves behind."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

import pytest
import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer, TrainingArguments

import gafixer.patch
from tests.patch import losses, tiny

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


CHECKPOINTING = next(
    name
    for name in ("activation_checkpointing", "gradient_checkpointing")
    if name in TrainingArguments.__dataclass_fields__
)


class Rows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Rows of very uneven items."""

    def __init__(self, rows: int, classes: int = 3) -> None:
        whole = tiny.tokens(classes)
        self.rows = [{name: value[row % len(value)] for name, value in whole.items()} for row in range(rows)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return self.rows[row]


class Stream(torch.utils.data.IterableDataset[dict[str, torch.Tensor]]):
    """The same without a length."""

    def __init__(self, rows: int) -> None:
        self.rows = Rows(rows)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        return iter(self.rows.rows)


class InOrder(Trainer):
    """Without shuffling."""

    def _get_train_sampler(self, *_: Any) -> Any:
        rows: Any = self.train_dataset
        return torch.utils.data.SequentialSampler(rows)


def arguments(folder: Path, batch: int, steps: int, **more: Any) -> dict[str, Any]:
    return {
        "output_dir": str(folder),
        "per_device_train_batch_size": batch,
        "gradient_accumulation_steps": steps,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        **more,
    }


def trained(folder: Path, batch: int, steps: int, data: Any, trainer_class: Any = InOrder, **more: Any) -> Any:
    """The trainer after a run of plain SGD."""
    model = tiny.bert(tiny.BertForTokenClassification)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    settings = TrainingArguments(**arguments(folder, batch, steps, **more))
    trainer = trainer_class(model=model, args=settings, train_dataset=data, optimizers=(optimizer, scheduler))
    trainer.train()
    return trainer


def weights(trainer: Any) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in trainer.model.parameters()])


def logged(trainer: Any) -> list[float]:
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("data", [Rows(24), Stream(24)], ids=["sized", "iterable"])
def test_any_split_of_the_batch_trains_the_same(tmp_path: Path, data: Any) -> None:
    whole = trained(tmp_path, 8, 1, data, max_steps=3)
    for batch, steps in ((4, 2), (1, 8)):
        split = trained(tmp_path, batch, steps, data, max_steps=3)
        torch.testing.assert_close(weights(split), weights(whole), rtol=1e-4, atol=1e-5)
        assert logged(split) == pytest.approx(logged(whole), abs=2e-4)


@pytest.mark.usefixtures("patched")
def test_windows_at_the_end_of_an_epoch(tmp_path: Path) -> None:
    # 10 rows: one microbatch is left over after two windows of 4, and completed as the release at hand does it
    split = trained(tmp_path, 1, 4, Rows(10), num_train_epochs=4)
    sizes = windows_of_release(10, 4, 4)
    model = tiny.bert(tiny.BertForTokenClassification)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
    rows = Rows(10).rows
    for window in sizes[: split.state.global_step]:
        batch = {name: torch.stack([rows[row % 10][name] for row in window]) for name in rows[0]}
        model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    expected = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    torch.testing.assert_close(weights(split), expected, rtol=1e-4, atol=1e-5)


def windows_of_release(rows: int, steps: int, epochs: int) -> list[list[int]]:
    import transformers
    from packaging.version import Version

    if Version(transformers.__version__) < Version("4.47"):  # counts through the epochs
        return [list(range(start, start + steps)) for start in range(0, rows * epochs, steps)]
    starts = [start for epoch in range(epochs) for start in range(epoch * rows, (epoch + 1) * rows, steps)]
    return [list(range(s, min(s + steps, (s // rows + 1) * rows))) for s in starts]


def test_evaluation_and_prediction_are_untouched(tmp_path: Path) -> None:
    model = tiny.bert(tiny.BertForTokenClassification)
    data = Rows(7)

    def evaluated() -> tuple[dict[str, float], Any]:
        settings = TrainingArguments(**arguments(tmp_path, 2, 2, per_device_eval_batch_size=3))
        trainer = Trainer(model=model, args=settings, eval_dataset=data)
        return trainer.evaluate(), trainer.predict(data).predictions

    before, guesses = evaluated()
    with gafixer.patch.patched():
        after, again = evaluated()
    assert after["eval_loss"] == before["eval_loss"]
    assert (again == guesses).all()


def test_a_trainer_built_before_is_patched_too(tmp_path: Path) -> None:
    model = tiny.bert(tiny.BertForTokenClassification)
    settings = TrainingArguments(**arguments(tmp_path, 1, 8, max_steps=1))
    trainer = InOrder(model=model, args=settings, train_dataset=Rows(8))
    right = float(model(**tiny.tokens(classes=3)).loss.detach())
    with gafixer.patch.patched():
        trainer.train()
    assert logged(trainer)[0] == pytest.approx(right, abs=1e-4)


@pytest.mark.usefixtures("patched")
def test_a_run_resumes_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # older releases save states that torch no longer loads by default
    monkeypatch.setattr(torch, "load", functools.partial(torch.load, weights_only=False))
    through = trained(tmp_path / "a", 2, 2, Rows(16), max_steps=4)
    trained(tmp_path / "b", 2, 2, Rows(16), max_steps=2, save_strategy="steps", save_steps=2)
    model = tiny.bert(tiny.BertForTokenClassification)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    settings = TrainingArguments(**arguments(tmp_path / "b", 2, 2, max_steps=4))
    trainer = InOrder(model=model, args=settings, train_dataset=Rows(16), optimizers=(optimizer, scheduler))
    trainer.train(resume_from_checkpoint=str(tmp_path / "b" / "checkpoint-2"))
    torch.testing.assert_close(weights(trainer), weights(through), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("patched")
def test_a_run_leaves_nothing_on_the_trainer(tmp_path: Path) -> None:
    trainer = trained(tmp_path, 2, 2, Rows(8), max_steps=1)
    for name in ("compute_loss", "label_smoother_", "loss_is_scaled_for_ga", "get_train_dataloader"):
        assert name not in vars(trainer)
    assert "backward" not in vars(trainer.accelerator)


@pytest.mark.usefixtures("patched")
def test_seq2seq_trainer(tmp_path: Path) -> None:
    model = tiny.bert(tiny.BertForTokenClassification)
    settings = Seq2SeqTrainingArguments(**arguments(tmp_path, 1, 8, max_steps=1))
    trainer = Seq2SeqTrainer(model=model, args=settings, train_dataset=Rows(8))
    right = float(model(**tiny.tokens(classes=3)).loss.detach())
    trainer.train()
    assert logged(trainer)[0] == pytest.approx(right, abs=1e-4)


@pytest.mark.usefixtures("patched")
@pytest.mark.filterwarnings("ignore:.torch.cpu.amp.autocast:FutureWarning")  # by older releases
@pytest.mark.parametrize("switch", ["bf16", CHECKPOINTING])
def test_autocast_and_checkpointing(tmp_path: Path, switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")  # older releases write it, and it would stay
    more = {switch: True}
    whole = trained(tmp_path, 8, 1, Rows(8), max_steps=1, **more)
    split = trained(tmp_path, 2, 4, Rows(8), max_steps=1, **more)
    assert logged(split) == pytest.approx(logged(whole), rel=5e-3)
    torch.testing.assert_close(weights(split), weights(whole), rtol=1e-2, atol=1e-3)


@pytest.mark.usefixtures("patched")
def test_a_training_step_that_changes_the_loss_is_left_alone_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Elsewhere(InOrder):
        def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            return super().training_step(model, dict(inputs), *args, **kwargs)

    with caplog.at_level(logging.WARNING, logger="gafixer.patch"):
        trained(tmp_path, 2, 2, Rows(8), trainer_class=Elsewhere, max_steps=1)
    assert "Elsewhere: left as it is: its window is unknown" in caplog.text


@pytest.mark.usefixtures("patched")
def test_own_loss_and_penalty_train_the_same_in_any_split(tmp_path: Path) -> None:
    class OnTop(losses.OnTop, InOrder):
        pass

    whole = trained(tmp_path, 8, 1, Rows(16), trainer_class=OnTop, max_steps=2)
    split = trained(tmp_path, 2, 4, Rows(16), trainer_class=OnTop, max_steps=2)
    torch.testing.assert_close(weights(split), weights(whole), rtol=1e-4, atol=1e-5)
