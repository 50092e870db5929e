"""`heads.json`: what is written can be read again, and what ships is what the installed release does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import transformers

from gafixer.data.heads import Contract, Count, heads, parse
from gafixer.parity import table
from gafixer.parity.contract import observe
from gafixer.parity.divides import Division, Loss
from gafixer.parity.heads import find_head
from gafixer.parity.measure import Outcome, Setting, cases, patch
from gafixer.parity.runner import HeadReport
from gafixer.parity.verify import work_with
from tests.parity.test_render import RIGHT, WRONG

RELEASE = transformers.__version__
DIVISIONS = (Division(Loss.PLAIN, 4, 1.0),)
CAUSAL = Contract(True, -100, Count.DIVIDES, {})
# One of each kind: shifted and counted, dropped, two terms, spans, per problem type, encoder-decoder.
SAMPLE = (
    "GPT2LMHeadModel",
    "BertForMaskedLM",
    "BertForPreTraining",
    "BertForQuestionAnswering",
    "ViTForImageClassification",
    "T5ForConditionalGeneration",
)


def report(name: str, **verdicts: Any) -> HeadReport:
    head = replace(find_head("LlamaForCausalLM"), name=name)
    outcomes = tuple(Outcome(head, variant, figures, contract=CAUSAL) for variant, figures in verdicts.items())
    return HeadReport(head, outcomes, 1.0)


def released(written: dict[str, Any], release: str) -> dict[str, Any]:
    """The table as it would be had another release been measured."""
    (entry,) = written["releases"]
    return {**written, "releases": [{**entry, "transformers": release}]}


def test_what_is_written_is_read_again() -> None:
    written = table.updated(table.empty(), [report("AForCausalLM", even=RIGHT, ragged=WRONG)], DIVISIONS, 4)
    read = parse(json.loads(table.render(written)))
    assert read.releases == (RELEASE,)
    assert read.tasks["AForCausalLM"] == "causal-lm"
    contract = read.contracts("AForCausalLM", RELEASE)[""]
    assert contract == replace(CAUSAL, trainer={"even": "parity", "ragged": "sum of means"})
    assert not contract.right
    assert read.contracts("AForCausalLM", "1.0.0") == {}
    assert read.contracts("NoSuchHead", RELEASE) == {}


def test_other_releases_and_heads_stay() -> None:
    old = released(table.updated(table.empty(), [report("AForCausalLM", even=WRONG)], DIVISIONS, 4), "4.45.2")
    both = table.updated(old, [report("BForCausalLM", even=RIGHT)], DIVISIONS, 4)
    again = table.updated(both, [report("BForCausalLM", even=WRONG)], DIVISIONS, 4)
    read = parse(again)
    assert read.releases == ("4.45.2", RELEASE)
    assert not read.contracts("AForCausalLM", "4.45.2")[""].right
    assert read.contracts("AForCausalLM", RELEASE) == {}
    assert read.contracts("BForCausalLM", RELEASE)[""].trainer == {"even": "sum of means"}
    assert len(again["contracts"]) == 1  # what nothing refers to any more is gone


def test_an_era_lasts_until_the_next_one() -> None:
    read = parse(released(table.updated(table.empty(), [report("AForCausalLM", even=WRONG)], DIVISIONS, 4), "4.45.2"))
    assert [read.era(release) for release in ("4.44.0", "4.45.2", "5.0.0")] == [None, "4.45.2", "4.45.2"]


def test_a_table_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 2"):
        parse({**table.empty(), "version": 2})


def test_the_patch_does_not_show_in_a_contract() -> None:
    # The patch makes a plain loop's head divide by the count; the table tells what the head itself does.
    (first, *_) = work_with(Setting(), True, contracts=True)(find_head("BertForMaskedLM"))
    assert first.contract is not None
    assert first.contract.count is Count.DROPS
    (case, *_) = cases(find_head("BertForMaskedLM"))
    with patch(True):
        assert observe(case).count is not Count.DROPS  # type: ignore[arg-type]  # it builds


@pytest.mark.skipif(RELEASE not in heads().releases, reason="the table has no such release")
@pytest.mark.parametrize("name", SAMPLE)
def test_the_shipped_table_has_not_drifted(name: str) -> None:
    shipped = heads().contracts(name, RELEASE)
    assert shipped
    outcomes = tuple(work_with(Setting(), False, contracts=True)(find_head(name)))
    assert dict(shipped) == table.profile_of(HeadReport(find_head(name), outcomes, 0.0))
