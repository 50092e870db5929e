"""What verify says of outcomes that are made up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gafixer.parity.divides import Division, Loss
from gafixer.parity.figures import Figures, Held, Verdict
from gafixer.parity.heads import Head
from gafixer.parity.measure import Outcome, Setting, Trouble
from gafixer.parity.render import closing, head_lines, header, to_json
from gafixer.parity.runner import HeadReport
from gafixer.parity.verify import misses, pairs, summarise

RIGHT = Figures(1.0, 1.0, 1e-8, 1e-6, 2.0, 2.0, Held.REFERENCE, Verdict.PARITY)
WRONG = replace(RIGHT, ratio=4.0, error=3.0, logged=8.0, verdict=Verdict.SUM_OF_MEANS)
HOLLOW = replace(RIGHT, ratio=float("nan"), cosine=float("nan"), verdict=Verdict.NO_GRADIENT)


def report(name: str, *variants: tuple[Figures | None, Figures | None], reason: str = "") -> HeadReport:
    head = Head(name, "somewhere", ("labels",))
    outcomes: list[Outcome] = []
    for index, (before, after) in enumerate(variants):
        trouble = None if before else Trouble.NOT_BUILT
        outcomes.append(Outcome(head, f"variant {index}", before, trouble, reason))
        if before:
            late = None if after else Trouble.NOT_DRIVEN
            outcomes.append(Outcome(head, f"variant {index}", after, late, "" if after else "TypeError: no", True))
    return HeadReport(head, tuple(outcomes), 1.0)


MENDED = report("AForCausalLM", (WRONG, RIGHT), (RIGHT, RIGHT))
STILL = report("BForCausalLM", (WRONG, WRONG))
BROKEN = report("CForMaskedLM", (RIGHT, None))
UNBUILT = report("DForMaskedLM", (None, None), reason="ImportError: nothing to build with")
EMPTY = report("EForMaskedLM", (HOLLOW, HOLLOW))
ALL = (MENDED, STILL, BROKEN, UNBUILT, EMPTY)


def test_what_decides_is_the_patched_step() -> None:
    assert [bool(misses(r)) for r in ALL] == [False, True, True, False, False]


def test_without_the_patch_the_step_as_it_is_decides() -> None:
    bare = HeadReport(MENDED.head, tuple(o for o in MENDED.outcomes if not o.patched), 1.0)
    assert [pair.ok for pair in pairs(bare)] == [False, True]
    assert misses(bare)


def test_the_summary_counts_what_says_something() -> None:
    causal, masked = summarise(ALL, patch=True)
    assert (causal.heads, causal.built, causal.right_before, causal.right_after) == (2, 2, 0, 1)
    assert (masked.heads, masked.built, masked.right_before, masked.right_after) == (3, 1, 1, 0)


def test_lines_align_under_their_header() -> None:
    names = header(patch=True).splitlines()[1]
    line = head_lines(MENDED).splitlines()[0]
    assert line.split() == [
        *("AForCausalLM", "variant", "0"),
        *("4.0000", "1.0000", "3.0e+00", "4.0000"),
        *("1.0000", "1.0000", "1.0e-08", "1.0000"),
        "ok",
    ]
    # numbers end where their column's name ends
    for word, value in (("ratio", "4.0000"), ("logged", "4.0000  ")):
        assert names.index(word) + len(word) == line.index(value.strip(), names.index(word) - 4) + 6


def test_a_head_that_is_not_built_has_its_reason() -> None:
    assert head_lines(UNBUILT) == f"{'DForMaskedLM':42} not built: ImportError: nothing to build with\n"


def test_the_close_names_each_miss_once() -> None:
    text = closing(ALL, (Division(Loss.DROPS, 4, 4.0),), patch=True)
    assert "2 heads miss the bound:" in text
    assert "  BForCausalLM: microbatch means are added up" in text
    assert "  CForMaskedLM: TypeError: no (variant 0; 1 of 1 variants)" in text
    assert "4.00  divided by nobody: too large by the steps" in text


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(1.0, "divided once"), (4.0, "divided by nobody"), (0.25, "divided twice"), (2.0, "2 times the reference")],
)
def test_ratios_in_words(ratio: float, words: str) -> None:
    assert Division(Loss.PLAIN, 4, ratio).verdict.startswith(words)


def test_json_is_json() -> None:
    told = json.loads(json.dumps(to_json(ALL, (), Setting(), patch=True), allow_nan=False))
    assert told["version"] == 1
    assert told["setting"]["dtype"] == "float32"
    heads = {head["name"]: head for head in told["heads"]}
    assert heads["AForCausalLM"]["variants"][0]["before"]["verdict"] == "sum of means"
    assert heads["AForCausalLM"]["variants"][0]["after"]["verdict"] == "parity"
    assert heads["DForMaskedLM"]["built"] is False
    assert heads["DForMaskedLM"]["variants"][0]["before"]["reason"].startswith("ImportError")
    assert heads["EForMaskedLM"]["variants"][0]["before"]["ratio"] is None
