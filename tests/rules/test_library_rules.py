"""What GA301 to GA305 say for which releases of Transformers, and when they are silent."""

from __future__ import annotations

import textwrap

import pytest

from gafixer import engine, settings
from gafixer.analysis.outside import Setting
from gafixer.analysis.project import MemoryProject
from gafixer.analysis.requirements import Requirement
from gafixer.analysis.site import Evidence
from gafixer.analysis.spot import Spot
from gafixer.findings import Finding, Place, Position, Severity, Span

HEAD = """
from torch import nn
from transformers import PreTrainedModel

class TaggerForTokenClassification(PreTrainedModel):
    {FLAG}
    def forward(self, x, labels=None, **kwargs):
        return {"loss": nn.functional.cross_entropy(self.head(x), labels)}
"""
COUNTED = """
from transformers import PreTrainedModel

class TaggerForTokenClassification(PreTrainedModel):
    {FLAG}
    def forward(self, x, labels=None, **kwargs):
        return {"loss": self.loss_function(self.head(x), labels, self.config, **kwargs)}
"""
OLD = """
from transformers import Trainer

class MyTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        return model(**inputs).loss
"""
PLACE = Place("requirements.txt", Span(Position(3, 1), Position(3, 20)))


def said(source: str, specifier: str | None = None, target: str | None = None) -> dict[str, Finding]:
    """Code -> finding of a file in a project that requires this of Transformers."""
    requirement = None if specifier is None else Requirement(specifier, PLACE)
    chosen = settings.resolve(settings.Layer(target_transformers=target))
    text = textwrap.dedent(source).replace("    {FLAG}\n", "")
    report = engine.check_source(text.encode(), "m.py", MemoryProject({}, requirement), chosen)
    return {finding.code: finding for finding in report.findings}


def test_head_by_release() -> None:
    newest = said(HEAD)["GA303"]
    assert newest.severity is Severity.ERROR
    assert "times too big" in newest.message
    divided_twice = said(HEAD, ">=5.2,<5.5")["GA303"]
    assert "weighs the same" in divided_twice.message
    old = said(HEAD, "==4.40.0")["GA303"]
    assert old.severity is Severity.WARNING
    assert "4.46" in old.message


def test_setting_counts_before_the_requirement() -> None:
    assert said(HEAD, "==4.40.0", target="5.24")["GA303"].severity is Severity.ERROR


@pytest.mark.parametrize("value", ["True", "False"])
def test_flag_of_a_head(value: str) -> None:
    flag = f"    accepts_loss_kwargs = {value}\n"
    mean, counted = said(HEAD.replace("    {FLAG}\n", flag)), said(COUNTED.replace("    {FLAG}\n", flag))
    assert set(mean) == ({"GA304"} if value == "True" else set())
    assert set(counted) == ({"GA304"} if value == "False" else set())


def test_signature_by_release() -> None:
    assert said(OLD)["GA302"].severity is Severity.ERROR
    assert "TypeError" in said(OLD)["GA302"].message
    assert said(OLD, "==4.30.0")["GA302"].severity is Severity.WARNING


def test_flag_before_super() -> None:
    source = OLD.replace(
        "    def compute_loss(self, model, inputs, return_outputs=False)",
        "    def __init__(self, **kwargs):\n"
        "        self.model_accepts_loss_kwargs = False\n"
        "        super().__init__(**kwargs)\n\n"
        "    def compute_loss(self, model, inputs, return_outputs=False, **kwargs)",
    )
    assert set(said(source)) == {"GA301", "GA304"}
    late = source.replace("        self.model_accepts_loss_kwargs = False\n", "").replace(
        "super().__init__(**kwargs)\n", "super().__init__(**kwargs)\n        self.model_accepts_loss_kwargs = False\n"
    )
    assert said(late) == {}


USER = """
from transformers import {HEAD}, Trainer, TrainingArguments

def main(rows):
    arguments = TrainingArguments("out", gradient_accumulation_steps={STEPS})
    Trainer({HEAD}.from_pretrained("x"), arguments, train_dataset=rows).train()
"""


def user(head: str, steps: str = "4") -> str:
    """A script that trains a library head."""
    return USER.replace("{HEAD}", head).replace("{STEPS}", steps)


@pytest.mark.parametrize(
    ("head", "specifier", "severity"),
    [
        ("AutoModelForCausalLM", ">=4.48,<5", None),
        ("AutoModelForCausalLM", ">=5.6", None),
        ("AutoModelForCausalLM", ">=4.40,<5", Severity.WARNING),
        ("AutoModelForCausalLM", "==5.3.0", Severity.ERROR),
        ("AutoModelForTokenClassification", ">=5.6", Severity.ERROR),
        ("AutoModelForSequenceClassification", "==4.40.0", None),
        ("AutoModelForSequenceClassification", "==4.46.1", Severity.ERROR),
    ],
)
def test_requirement(head: str, specifier: str, severity: Severity | None) -> None:
    found = said(user(head), specifier).get("GA305")
    assert (found.severity if found is not None else None) is severity
    if found is not None:
        assert found.place == PLACE
        assert head in found.message


def test_requirement_silent() -> None:
    head = "AutoModelForTokenClassification"
    assert said(user(head)) == {}  # nothing is required
    assert said("import gafixer.patch\n" + user(head), ">=5.6") == {}
    assert said(user(head, "1"), ">=5.6")["GA305"].severity is Severity.INFO


def test_arguments_of_ones_own_that_accumulate_nothing() -> None:
    """Whatever another file of the project says; arguments that come from elsewhere may be told."""
    written = Evidence(Spot("run.sh", 1, 0, 1, 8), "gradient_accumulation_steps is 8 here")
    steps = (Setting("gradient_accumulation_steps", 8, written),)
    own = user("AutoModelForSequenceClassification").replace(", gradient_accumulation_steps=4", "")
    given = own.replace('"out"', '"out", **options')
    severities = []
    for source in (own, given):
        project = MemoryProject({}, Requirement(">=5.6", PLACE), steps)
        found = engine.check_source(source.encode(), "m.py", project, settings.resolve(settings.Layer())).findings
        severities.append([f.severity for f in found if f.code == "GA305"])
    assert severities == [[Severity.INFO], [Severity.ERROR]]


STEP = """
from transformers import Trainer

class Pairs(Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        loss = -(model(inputs["chosen"]) - model(inputs["rejected"])).sigmoid().log().mean(){DIVIDED}
        self.accelerator.backward(loss)
        return loss.detach() / self.args.gradient_accumulation_steps
"""


@pytest.mark.parametrize(
    ("specifier", "divided", "severity"),
    [
        (">=5.6", "", Severity.WARNING),
        ("==4.57.0", "", Severity.WARNING),
        ("==4.45.2", "", Severity.INFO),  # Accelerate divides
        ("==5.3.0", "", Severity.INFO),  # and does so again
        (">=5.6", " / self.args.gradient_accumulation_steps", Severity.INFO),
    ],
)
def test_a_training_step_that_goes_backward_by_itself(specifier: str, divided: str, severity: Severity) -> None:
    found = said(STEP.replace("{DIVIDED}", divided), specifier)
    assert found["GA301"].severity is severity
    assert ("nobody divides" in found["GA301"].message) is (not divided and specifier != "==4.45.2")


def test_a_switch_divides_nothing_in_a_training_step_of_ones_own() -> None:
    init = "    def __init__(self, **kw):\n        super().__init__(**kw)\n"
    flag = f"{init}        self.model_accepts_loss_kwargs = False\n"
    source = STEP.replace("{DIVIDED}", "").replace("class Pairs(Trainer):\n", f"class Pairs(Trainer):\n{flag}")
    assert said(source, ">=5.6")["GA301"].severity is Severity.WARNING


BATCHES = """
from transformers import Trainer

class Whole(Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        {FLAG}

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        return [next(epoch_iterator) for _ in range(num_batches)], None
"""


def test_microbatches_without_their_count() -> None:
    found = said(BATCHES.replace("{FLAG}", "pass"), ">=5.6")["GA301"]
    assert found.severity is Severity.WARNING
    assert "weighs the same" in found.message
    assert "times too big" in said(BATCHES.replace("{FLAG}", "pass"), "==4.50.0")["GA301"].message
    assert said(BATCHES.replace("{FLAG}", "pass"), "==4.45.2") == {}
    assert "GA301" not in said(BATCHES.replace("{FLAG}", "self.model_accepts_loss_kwargs = False"), ">=5.6")


def test_releases_in_a_message() -> None:
    message = said(user("AutoModelForCausalLM"), ">=4.40")["GA305"].message
    assert "may be 4.40 to 4.47, 5.2 to 5.5.3:" in message


OWN = """
from transformers import AutoModelForCausalLM
from own import Trainer

def main(rows):
    Trainer(AutoModelForCausalLM.from_pretrained("x"), rows, gradient_accumulation_steps=4).train()
"""


@pytest.mark.parametrize(
    ("trainer", "found"),
    [
        ("class Trainer:\n    pass\n", False),
        ("from transformers import Trainer as Base\n\nclass Trainer(Base):\n    pass\n", True),
    ],
)
def test_a_trainer_of_the_projects_own(trainer: str, found: bool) -> None:
    project = MemoryProject({"own": trainer}, Requirement("==5.3.0", PLACE))
    report = engine.check_source(OWN.encode(), "m.py", project, settings.resolve(settings.Layer()))
    assert ("GA305" in {f.code for f in report.findings}) is found


def test_blocks_of_one_length_weigh_the_same() -> None:
    """Before 4.46 a mean of means is wrong only where counts vary."""
    source = user("AutoModelForCausalLM")
    cut = "\n\ndef keep(rows):\n    return [row for length, row in rows if length == CONTEXT_LENGTH]\n"
    assert "GA305" in said(source, "==4.40.0")
    assert "GA305" not in said(source + cut, "==4.40.0")
    assert "GA305" in said(source + cut, "==5.3.0")
