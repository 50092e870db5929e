"""A plan may change several files: the fixed project meets the reference, and who else uses them gets what he got."""

from __future__ import annotations

import functools

import pytest

torch = pytest.importorskip("torch")

from tests.codemod.fixer import fix_files  # noqa: E402 - the projects import torch
from tests.codemod.loops import batches  # noqa: E402 - the same
from tests.codemod.projects import OWN, PROJECTS, run  # noqa: E402 - the same

PARITY, FAULT = 1e-6, 1e-3

projects = pytest.mark.parametrize("name", PROJECTS)


@functools.cache
def _fixed(name: str) -> tuple[tuple[str, str], ...]:
    return tuple(fix_files(PROJECTS[name], OWN.get(name, "train")).items())


@projects
@pytest.mark.parametrize("steps", [1, 4])
def test_meets_the_reference(name: str, steps: int) -> None:
    loader = batches()
    before, said = run(PROJECTS[name], steps, loader)
    after, says = run(dict(_fixed(name)), steps, loader)
    assert len(after) == len(before) == -(-len(loader) // steps)
    assert max(after) < PARITY
    assert steps == 1 or max(before) > FAULT
    assert says == pytest.approx(said, rel=PARITY, nan_ok=True)


@projects
def test_a_second_run_changes_nothing(name: str) -> None:
    once = dict(_fixed(name))
    for own in once:
        assert fix_files(once, own, unsafe=True) == once


@projects
def test_changes_the_file_of_the_loss_but_where_it_can_be_asked(name: str) -> None:
    changed = {module for module, text in _fixed(name) if PROJECTS[name][module] != text}
    others = {
        "function_of_a_helper_module": {"losses"},
        "loss_in_a_subclass": {"base"},
        "loss_in_a_third_method": set(),
        "parameter_there_already": set(),
        "step_in_a_mixin": {"stepping"},
        "step_in_a_mixin_and_backward_in_a_method": {"stepping"},
    }
    assert changed == {"train"} | others.get(name, {"model"})


def test_a_subclass_that_nobody_changed_goes_on_as_before() -> None:
    """Its loss says no number of items, so each microbatch weighs as much as any other."""
    other = """\
from base import Trainer


def train(model, loader, optimizer, steps):
    class Squares(Trainer):
        def training_step(self, batch):
            x, _ = batch
            return model(x)[0].square().mean()

    trainer = Squares(model, optimizer, steps)
    trainer.fit(loader)
    return [p.grad.norm().item() for p in model.parameters() if p.grad is not None] + trainer.reported
"""
    before = {**PROJECTS["loss_in_a_subclass"], "train": other.replace("model.parameters()", "trainer.kept")}
    kept = "        self.kept = list(self.model.parameters())\n"
    base = before["base"].replace("        self.optimizer.zero_grad()\n", kept)
    fixed = dict(_fixed("loss_in_a_subclass"))["base"].replace("        self.optimizer.zero_grad()\n", kept)
    loader = batches(4)
    _, said = run({**before, "base": base}, 4, loader)
    _, says = run({**before, "base": fixed}, 4, loader)
    assert len(says) == 7
    assert says == pytest.approx(said, rel=PARITY)


def test_a_function_with_another_way_is_not_asked() -> None:
    """One of two ways sums by hand: what both return is a mean, and is weighted as it is."""
    project = dict(PROJECTS["function_of_a_helper_module"])
    project["losses"] = """\
import torch.nn.functional as F


def tagging_loss(model, words, tags, whole=True):
    logits, _ = model(words)
    if whole:
        return F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=-100)
    each = F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=-100, reduction="none")
    return each.sum() / (tags != -100).sum().clamp(min=1)
"""
    made = fix_files(project, unsafe=True)
    assert made["losses"] == project["losses"]
    errors, _ = run(made, 4, batches())
    assert max(errors) < PARITY


def test_a_class_with_the_step_of_a_changed_mixin_goes_on_as_before() -> None:
    other = """\
from loop import Loop
from stepping import Stepping


class Squares(Loop, Stepping):
    def __init__(self, model, optimizer, steps):
        self.model, self.optimizer, self.steps, self.reported = model, optimizer, steps, []

    def microbatch(self, batch):
        loss = self.model(batch[0])[0].square().mean() / self.steps
        loss.backward()
        self.reported.append(next(self.model.parameters()).grad.norm().item())
        return loss.item()


def train(model, loader, optimizer, steps):
    trainer = Squares(model, optimizer, steps)
    trainer.fit(loader)
    return trainer.reported
"""
    project = PROJECTS["step_in_a_mixin"]
    loader = batches(8)
    _, said = run({**project, "train": other}, 4, loader)
    _, says = run({**project, "train": other, "stepping": dict(_fixed("step_in_a_mixin"))["stepping"]}, 4, loader)
    assert len(says) == 16
    assert says == pytest.approx(said, rel=PARITY)


def test_a_subclass_that_steps_by_itself_keeps_its_base_class_as_it_is() -> None:
    project = {
        **PROJECTS["step_in_a_mixin"],
        "eager": "from train import Trainer\n\n\nclass Eager(Trainer):\n"
        "    def maybe_step(self, position, last):\n        self.optimizer.step()\n",
    }
    project["train"] += "\n\ndef eager():\n    from eager import Eager\n\n    return Eager\n"
    assert fix_files(project, "train") == project


@pytest.mark.parametrize("base", ["Tagger", "Between"])
def test_a_method_that_a_third_file_overrides_is_not_asked(base: str) -> None:
    """The subclass's own forward would not take the parameter: the mean that it gives is weighted as it is."""
    between = "" if base == "Tagger" else f"class {base}(Tagger):\n    pass\n\n"
    heir = (
        f"class Heir({base}):\n    def forward(self, words, tags=None):\n        return super().forward(words, tags)\n"
    )
    project = {**PROJECTS["loss_in_forward"], "heirs": f"from model import Tagger\n{between}{heir}"}
    made = fix_files(project, unsafe=True)
    assert made["model"] == project["model"]
    errors, _ = run(made, 4, batches())
    assert max(errors) < PARITY


def test_a_mean_over_replicas_is_none_over_sums() -> None:
    """What `DataParallel` gives is a loss of each replica: with sums their mean would be too small."""
    project = dict(PROJECTS["loss_in_forward"])
    project["train"] = project["train"].replace(
        "        loss = loss / steps\n", "        loss = loss.mean()\n        loss = loss / steps\n"
    )
    made = fix_files(project, unsafe=True)
    assert made["model"] == project["model"]
    errors, _ = run(made, 4, batches())
    assert max(errors) < PARITY
