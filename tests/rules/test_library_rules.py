"""What GA301 to GA305 say for which releases of Transformers, and when they are silent."""

from __future__ import annotations

import textwrap

import pytest

from gafixer import engine, settings
from gafixer.analysis.project import MemoryProject
from gafixer.analysis.requirements import Requirement
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


def test_releases_in_a_message() -> None:
    message = said(user("AutoModelForCausalLM"), ">=4.40")["GA305"].message
    assert "may be 4.40 to 4.47, 5.2 to 5.5.3:" in message
