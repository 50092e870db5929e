"""Heads that were measured are judged by that; others by their names."""

from __future__ import annotations

import pytest

from gafixer import engine
from gafixer.analysis import measured
from gafixer.analysis.project import MemoryProject
from gafixer.analysis.requirements import Requirement
from gafixer.analysis.site import Items
from gafixer.data.heads import parse
from gafixer.findings import Place, Position, Span
from tests.analysis.scanning import ALL, sites

_DIVIDES = {"shifts": True, "ignored": -100, "count": "divides", "trainer": {"first label ignored": "parity"}}
_DROPS = {"shifts": False, "ignored": -100, "count": "drops", "trainer": {"uneven": "sum of means"}}
TABLE = {
    "version": 1,
    "releases": [{"transformers": "4.57.6"}, {"transformers": "5.24.0"}],
    "contracts": [_DIVIDES, _DROPS],
    "profiles": [{"": 0}, {"": 1}],
    "heads": {
        "AForCausalLM": ["causal-lm", [0, 0]],
        "BForMaskedLM": ["masked-lm", [1, 0]],
        "CForCTC": ["ctc", [None, 1]],
        "DForMultipleChoice": ["multiple-choice", [1, 1]],
        "EForMaskedLM": ["masked-lm", [1, 1]],
    },
}


@pytest.fixture(autouse=True)
def _table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "_table", lambda: parse(TABLE))


@pytest.mark.parametrize(
    ("heads", "release", "verdicts"),
    [
        (["AForCausalLM"], "5.24.0", {"parity"}),
        (["BForMaskedLM"], "4.57.6", {"sum of means"}),
        (["BForMaskedLM"], "5.10.0", {"sum of means"}),
        (["AForCausalLM", "CForCTC"], "5.24.0", {"parity", "sum of means"}),
    ],
)
def test_is_known(heads: list[str], release: str, verdicts: set[str]) -> None:
    found = measured.measured(heads, release)
    assert found is not None
    assert found.verdicts == verdicts


@pytest.mark.parametrize(
    ("heads", "release"),
    [(["CForCTC"], "4.57.6"), (["ZForMaskedLM"], "5.24.0"), (["AForCausalLM"], "4.40.0"), ([], "5.24.0")],
)
def test_is_not_known(heads: list[str], release: str) -> None:
    assert measured.measured(heads, release) is None


@pytest.mark.parametrize(
    ("heads", "release", "drops"),
    [
        (["AForCausalLM"], "5.24.0", False),
        (["EForMaskedLM"], "5.24.0", True),
        (["AutoModelForCausalLM"], "5.24.0", False),
        (["AutoModelForCTC"], "5.24.0", True),  # all that it may be do
        (["AutoModelForMaskedLM"], "5.24.0", False),  # of these one divides
        (["AutoModelForMaskedLM"], "4.57.6", True),
        (["AForCausalLM", "EForMaskedLM"], "5.24.0", False),
        (["ZForMaskedLM"], "5.24.0", False),
        (["EForMaskedLM"], "4.40.0", False),
        ([], "5.24.0", False),
    ],
)
def test_drops(heads: list[str], release: str, drops: bool) -> None:
    assert measured.drops(heads, release) is drops


OVERRIDE = """
from transformers import {HEAD}, Trainer

class Counts(Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        {FLAG}

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return model(**inputs, num_items_in_batch=num_items_in_batch).loss

def main(rows):
    Counts({HEAD}.from_pretrained("x"), train_dataset=rows).train()
"""


def codes(source: str, head: str, flag: str = "pass") -> set[str]:
    """What is shown of a Trainer of one's own that hands the count to this head."""
    place = Place("requirements.txt", Span(Position(1, 1), Position(1, 9)))
    project = MemoryProject({}, Requirement("==5.24.0", place))
    text = source.replace("{HEAD}", head).replace("{FLAG}", flag)
    report = engine.check_source(text.encode(), "m.py", project, ALL)
    return {f.code for f in report.findings if f.severity.value != "info"} & {"GA301", "GA304"}


def test_a_count_that_is_handed_to_a_head_that_drops_it() -> None:
    """It is no use there, and a switch that keeps it from the head is right."""
    kept = "self.model_accepts_loss_kwargs = False"
    assert codes(OVERRIDE, "AForCausalLM") == set()
    assert codes(OVERRIDE, "EForMaskedLM") == {"GA301"}
    assert codes(OVERRIDE, "AForCausalLM", kept) == {"GA304"}
    assert codes(OVERRIDE, "EForMaskedLM", kept) == set()
    assert codes(OVERRIDE, "ZForMaskedLM") == set()  # never measured: what it is handed is believed


INHERITS = """
from transformers import {HEAD}

class Mine({HEAD}):
    accepts_loss_kwargs = {FLAG}

    def forward(self, x, labels=None, **kwargs):
        return super().forward(x, labels=labels, **kwargs)
"""


def test_a_switch_of_a_head_that_is_made_of_the_librarys() -> None:
    assert codes(INHERITS, "AForCausalLM", "False") == {"GA304"}
    assert codes(INHERITS, "EForMaskedLM", "False") == set()
    assert codes(INHERITS, "AForCausalLM", "True") == set()
    assert codes(INHERITS, "EForMaskedLM", "True") == {"GA304"}


LOOP = """
from transformers import {HEAD}

def train(loader, optimizer, n):
    model = {HEAD}.from_pretrained("x")
    for i, batch in enumerate(loader):
        loss = model(**batch).loss / n
        loss.backward()
        if (i + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(("head", "items"), [("EForMaskedLM", Items.TOKENS), ("DForMultipleChoice", Items.SAMPLES)])
def test_what_a_head_counts_in_a_plain_loop(head: str, items: Items) -> None:
    (site,) = sites(LOOP.replace("{HEAD}", head))
    assert [term.items for term in site.terms] == [items]
