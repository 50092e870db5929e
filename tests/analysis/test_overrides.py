"""What overrides of a Trainer's parts do with the window's count."""

from __future__ import annotations

import textwrap

import pytest

from gafixer.analysis.flow import Honours
from gafixer.analysis.overrides import Kind, OverrideSite, overrides
from gafixer.analysis.project import MemoryProject
from gafixer.analysis.source import Module

IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\nfrom transformers import Trainer\n"


def read(source: str) -> list[OverrideSite]:
    """The overrides of a module."""
    text = IMPORTS + textwrap.dedent(source)
    return overrides(Module.read("train", "train.py", text.encode(), whole=True), MemoryProject({}))


def compute_loss(signature: str, body: str, init: str = "") -> OverrideSite:
    """A Trainer with this `compute_loss`."""
    lines = [f"class MyTrainer(Trainer):\n{init}    def compute_loss({signature}):\n"]
    (found,) = read("".join(lines) + textwrap.indent(textwrap.dedent(body), " " * 8))
    return found


NAMED = "self, model, inputs, return_outputs=False, num_items_in_batch=None"
CAUGHT = "self, model, inputs, return_outputs=False, **kwargs"

IGNORES = {
    "outputs.loss": "outputs = model(**inputs)\nreturn (outputs.loss, outputs) if return_outputs else outputs.loss",
    "item": 'outputs = model(**inputs)\nloss = outputs["loss"]\nreturn loss',
    "criterion": 'labels = inputs.pop("labels")\nreturn nn.CrossEntropyLoss()(model(**inputs).logits, labels)',
    "super without the count": "return super().compute_loss(model, inputs, return_outputs)",
    "focal": (
        'nll = F.cross_entropy(model(**inputs).logits, inputs["labels"], reduction="none")\nreturn (nll ** 2).mean()'
    ),
}
USES = {
    "super": "return super().compute_loss(model, inputs, return_outputs, num_items_in_batch=num_items_in_batch)",
    "super by place": "return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)",
    "the model": "return model(**inputs, num_items_in_batch=num_items_in_batch).loss",
    "the inputs": 'inputs["num_items_in_batch"] = num_items_in_batch\nreturn model(**inputs).loss',
    "sum": (
        'loss = F.cross_entropy(model(**inputs).logits, inputs["labels"], reduction="sum")\n'
        "if num_items_in_batch is not None:\n    loss = loss / num_items_in_batch\nreturn loss"
    ),
}


@pytest.mark.parametrize("signature", [NAMED, CAUGHT], ids=["named", "caught"])
@pytest.mark.parametrize("body", IGNORES.values(), ids=IGNORES)
def test_ignores_the_count(signature: str, body: str) -> None:
    site = compute_loss(signature, body)
    assert {call.honours for call in site.losses} == {Honours.NO}
    assert site.missing == ()
    assert site.taken == ("num_items_in_batch" if signature == NAMED else "**kwargs")


@pytest.mark.parametrize("body", USES.values(), ids=USES)
def test_uses_the_count(body: str) -> None:
    assert {call.honours for call in compute_loss(NAMED, body).losses} == {Honours.YES}


def test_hands_everything_on() -> None:
    site = compute_loss(
        "self, model, inputs, *args, **kwargs", "return super().compute_loss(model, inputs, *args, **kwargs)"
    )
    assert {call.honours for call in site.losses} == {Honours.YES}
    assert site.missing == ()


def test_no_loss_on_labels() -> None:
    site = compute_loss(
        NAMED, 'good = model(inputs["a"])\nbad = model(inputs["b"])\nreturn -F.logsigmoid(good - bad).mean()'
    )
    assert site.losses == ()


@pytest.mark.parametrize(
    ("signature", "missing"),
    [
        ("self, model, inputs, return_outputs=False", ("num_items_in_batch",)),
        ("self, model, inputs, *args", ("num_items_in_batch",)),
        (CAUGHT, ()),
        (NAMED, ()),
    ],
)
def test_signature(signature: str, missing: tuple[str, ...]) -> None:
    site = compute_loss(signature, "return model(**inputs).loss")
    assert tuple(name for name, _ in site.missing) == missing


@pytest.mark.parametrize(
    ("signature", "missing"),
    [("self, model, inputs", True), ("self, model, inputs, *args", False), ("self, model, inputs, n", False)],
)
def test_training_step_signature(signature: str, missing: bool) -> None:
    (site,) = read(
        f"class T(Trainer):\n    def training_step({signature}):\n        return super().training_step(model, inputs)\n"
    )
    assert bool(site.missing) is missing


def test_training_step_that_drops_the_count() -> None:
    (site,) = read(
        """
        class T(Trainer):
            def training_step(self, model, inputs, num_items_in_batch=None):
                loss = self.compute_loss(model, inputs)
                self.accelerator.backward(loss)
                return loss.detach()
        """
    )
    assert {call.honours for call in site.losses} == {Honours.NO}


def test_flags() -> None:
    init = "    def __init__(self, **kw):\n"
    after = init + "        super().__init__(**kw)\n        self.model_accepts_loss_kwargs = False\n"
    before = init + "        self.model_accepts_loss_kwargs = False\n        super().__init__(**kw)\n"
    maybe = (
        "    def __init__(self, **kw):\n        super().__init__(**kw)\n        if kw:\n"
        "            self.model_accepts_loss_kwargs = False\n"
    )
    body = "return model(**inputs).loss"
    assert compute_loss(NAMED, body, after).undivided
    assert not compute_loss(NAMED, body, maybe).undivided
    early = compute_loss(NAMED, body, before)
    assert not early.undivided
    assert [flag.name for flag in early.lost] == ["model_accepts_loss_kwargs"]


def test_loss_function_and_mapping() -> None:
    found = read(
        """
        def first(outputs, labels, num_items_in_batch=None):
            return F.cross_entropy(outputs.logits, labels)

        def second(logits, labels, vocab_size, num_items_in_batch=None, **kwargs):
            return F.cross_entropy(logits, labels, reduction="sum") / num_items_in_batch

        def third(logits, labels, vocab_size):
            return F.cross_entropy(logits, labels)

        Trainer(None, compute_loss_func=first)
        LOSS_MAPPING["Mine"] = second
        LOSS_MAPPING.update({"Other": third})
        """
    )
    by_name = {site.name: site for site in found}
    assert by_name["first"].kind is Kind.LOSS_FUNCTION
    assert {call.honours for call in by_name["first"].losses} == {Honours.NO}
    assert {call.honours for call in by_name["second"].losses} == {Honours.YES}
    assert [name for name, _ in by_name["third"].missing] == ["num_items_in_batch"]


def test_other_trainers_are_left_alone() -> None:
    assert (
        read("import lightning\nclass T(lightning.Trainer):\n    def training_step(self, batch):\n        return 1\n")
        == []
    )


STEP = """
class T(Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        {body}
        return loss.detach() / self.args.gradient_accumulation_steps
"""


@pytest.mark.parametrize(
    ("body", "honours"),
    [
        ("loss = -F.logsigmoid(model(inputs)).mean(); self.accelerator.backward(loss)", {Honours.NO}),
        ("loss = -F.logsigmoid(model(inputs)).mean(); loss.backward()", {Honours.NO}),
        ("loss = self.rank(model, inputs, num_items_in_batch); self.accelerator.backward(loss)", set()),
        ("loss = super().training_step(model, inputs, num_items_in_batch)", set()),
        ("loss = -F.logsigmoid(model(inputs)).mean(); loss.backward(); self.optimizer.step()", set()),
    ],
)
def test_training_step_that_goes_backward_by_itself(body: str, honours: set[Honours]) -> None:
    """Whatever its loss is made of; one that steps too has windows of its own."""
    (site,) = read(STEP.format(body=body))
    assert {call.honours for call in site.losses} == honours
    assert site.sends is bool(honours)
    assert not site.divides  # what is returned is for the log


def test_training_step_that_divides() -> None:
    body = "loss = model(**inputs).loss / self.args.gradient_accumulation_steps; self.accelerator.backward(loss)"
    (site,) = read(STEP.format(body=body))
    assert site.divides


@pytest.mark.parametrize(
    ("returned", "uncounted"),
    [
        ("batches, None", True),
        ("batches, self.count(batches)", False),
        ("super().get_batch_samples(epoch_iterator, num_batches, device)", False),
    ],
)
def test_get_batch_samples_without_a_count(returned: str, uncounted: bool) -> None:
    (site,) = read(
        "class T(Trainer):\n    def get_batch_samples(self, epoch_iterator, num_batches, device):\n"
        f"        batches = [next(epoch_iterator) for _ in range(num_batches)]\n        return {returned}\n"
    )
    assert site.uncounted is uncounted


def test_a_trainer_that_trains_by_itself() -> None:
    """A class of the project's own with a loop is none of Transformers'; without one it may be mixed into one."""
    loss = "    def compute_loss(self, model, inputs):\n        return model(inputs).mean()\n"
    assert read(f"class GRPOTrainer:\n{loss}    def train(self):\n        pass\n") == []
    assert len(read(f"class LossMixin:\n{loss}")) == 1
    assert len(read(f"class Own(Trainer):\n{loss}    def train(self):\n        pass\n")) == 1
