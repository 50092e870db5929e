"""Apply, revert, status: what is put on, when, and that it comes off again."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedModel, Trainer

import gafixer.patch
from gafixer.patch import State
from tests.patch import tiny

if TYPE_CHECKING:
    import pytest


def attributes() -> dict[str, object]:
    names = ("training_step", "compute_loss", "get_batch_samples", "prediction_step", "_inner_training_loop")
    held: dict[str, object] = {name: vars(Trainer).get(name) for name in names}
    held["__call__"] = vars(PreTrainedModel).get("__call__")
    held["skip_first_batches"] = sys.modules["transformers.trainer"].skip_first_batches
    return held


def test_revert_restores_the_very_objects() -> None:
    before = attributes()
    gafixer.patch.apply()
    during = attributes()
    gafixer.patch.revert()
    after = attributes()
    assert during["training_step"] is not before["training_step"]
    assert during["__call__"] is not None
    assert {name: id(value) for name, value in after.items()} == {name: id(value) for name, value in before.items()}
    assert "__call__" not in vars(PreTrainedModel)
    assert all(entry.state is State.REVERTED for entry in gafixer.patch.status())


def test_applying_twice_is_once() -> None:
    before = attributes()
    with gafixer.patch.patched():
        once = attributes()
        gafixer.patch.apply()
        assert attributes() == once
    assert attributes() == before


def test_contexts_nest_and_switch_off() -> None:
    before = attributes()
    with gafixer.patch.patched():
        on = attributes()["training_step"]
        with gafixer.patch.patched(on=False):
            assert attributes() == before
        assert attributes()["training_step"] is not before["training_step"]
        assert on is not before["training_step"]
    assert attributes() == before


def test_one_line_names_each_patch_its_target_and_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="gafixer.patch"), gafixer.patch.patched():
        applied = [entry for entry in gafixer.patch.status() if entry.state is State.APPLIED]
    lines = [record.getMessage() for record in caplog.records]
    assert len(applied) >= 5
    for entry in applied:
        assert [line for line in lines if entry.patch.target in line and entry.patch.reason in line]


def stands_down(caplog: pytest.LogCaptureFixture, reason: str) -> None:
    before = attributes()
    with caplog.at_level(logging.WARNING, logger="gafixer.patch"), gafixer.patch.patched():
        during = attributes()
        states = {entry.state for entry in gafixer.patch.status() if entry.patch.owner == "Trainer"}
    assert {name: during[name] for name in during if name != "__call__"} == {
        name: before[name] for name in before if name != "__call__"
    }
    assert State.APPLIED not in states
    assert [record.getMessage() for record in caplog.records if reason in record.getMessage()]
    assert len(caplog.records) == 1


def test_another_patcher_keeps_its_target(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def training_step(self: Any, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        return self.compute_loss(model, inputs)

    training_step.__module__ = "unsloth.models._utils"
    monkeypatch.setattr(Trainer, "training_step", training_step)
    stands_down(caplog, "transformers.trainer.Trainer.training_step was changed by unsloth.models._utils")


def test_an_unknown_contract_stands_down(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def training_step(self: Any, model: Any, batch: Any) -> Any:
        return self.loss_and_backward(model, batch)

    training_step.__module__ = "transformers.trainer"
    monkeypatch.setattr(Trainer, "training_step", training_step)
    stands_down(caplog, "no longer has inputs, compute_loss, accelerator, backward")


def test_an_old_release_stands_down(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sys.modules["transformers"], "__version__", "4.44.2")
    with caplog.at_level(logging.WARNING, logger="gafixer.patch"), gafixer.patch.patched():
        assert not [entry for entry in gafixer.patch.status() if entry.state is State.APPLIED]
    assert "older than 4.45" in caplog.text


def test_what_is_put_over_the_patch_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = vars(Trainer)["training_step"]
    gafixer.patch.apply()
    ours = vars(Trainer)["training_step"]

    def over(self: Any, *args: Any, **kwargs: Any) -> Any:
        return ours(self, *args, **kwargs)

    Trainer.training_step = over  # type: ignore[method-assign]  # what another patcher does
    gafixer.patch.revert()
    assert vars(Trainer)["training_step"] is over
    Trainer.training_step = before  # type: ignore[method-assign]  # clean up


def run(code: str, **environment: str) -> str:
    import os

    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


SAY = "from transformers import Trainer; print(hasattr(Trainer.training_step, '__wrapped__'))"


def test_import_order_does_not_matter() -> None:
    assert run(f"import gafixer.patch; {SAY}") == "True"


def test_the_environment_switches_it_off_until_it_is_applied() -> None:
    off_then_on = f"import gafixer.patch; {SAY}; gafixer.patch.apply(); {SAY}"
    assert run(off_then_on, GAFIXER_PATCH="0").split() == ["False", "True"]


def test_importing_it_imports_nothing_heavy() -> None:
    code = (
        "import gafixer.patch, sys; print(sorted({'torch', 'transformers', 'accelerate', 'peft'} & set(sys.modules)))"
    )
    assert run(code) == "[]"


def test_a_model_that_was_trained_can_be_pickled() -> None:
    import pickle

    from gafixer.parity.drive import drive_trainer

    model = tiny.bert(tiny.BertForTokenClassification)
    with gafixer.patch.patched():
        drive_trainer(model, tiny.window(tiny.tokens(classes=3)))
        model(**tiny.tokens(classes=3), num_items_in_batch=4)
    again = pickle.loads(pickle.dumps(model))
    assert vars(again).keys() == vars(model).keys()
