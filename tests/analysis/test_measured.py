"""Heads that were measured are judged by that; others by their names."""

from __future__ import annotations

import pytest

from gafixer.analysis import measured
from gafixer.data.heads import parse

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
    [(["CForCTC"], "4.57.6"), (["DForMaskedLM"], "5.24.0"), (["AForCausalLM"], "4.40.0"), ([], "5.24.0")],
)
def test_is_not_known(heads: list[str], release: str) -> None:
    assert measured.measured(heads, release) is None
