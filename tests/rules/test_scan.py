"""Scanning a rule's faulty script says that rule and no other; scanning the right one says nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import REAL, gafixer

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent.name for path in (ROOT / "rules").glob("GA*/bad.py"))
LOUD = {"error", "warning"}

#: What the scan doesn't say right yet. Strict: whoever mends one takes it off the list.
NOT_YET = {
    ("GA102", "bad.py"): "a short window is not told from a short batch",
    ("GA105", "bad.py"): "`rows.size(0)` is taken for a number of ranks",
    ("GA204", "bad.py"): "the items of a batch are taken for those of its slices",
    ("GA204", "good.py"): "the items of a batch are taken for those of its slices",
    ("GA207", "bad.py"): "a step inside the loop over the steps is not told from no accumulation",
    ("GA106", "good.py"): "a term that is averaged over microbatches is taken for a token mean",
    ("GA501", "bad.py"): "a reported sum that is divided by the steps once more is not seen",
    ("GA401", "bad.py"): "the count that reaches a dividing helper is not followed",
    ("GA402", "bad.py"): "the count that reaches a dividing helper is not followed",
}


@pytest.fixture(scope="module")
def said() -> dict[str, list[dict[str, Any]]]:
    """File -> all that is said of it, of one scan over all rules."""
    run = gafixer(
        *("scan", "rules", "--isolated", "--min-severity", "info", "--output-format", "json"), cwd=ROOT, command=REAL
    )
    assert run.returncode == 1, run.stderr
    by_file: dict[str, list[dict[str, Any]]] = {}
    for finding in json.loads(run.stdout)["findings"]:
        by_file.setdefault(finding["filename"], []).append(finding)
    return by_file


def _scripts(name: str) -> list[Any]:
    """The folders with a script of this name; those that are not right yet are marked."""
    marks = {key[0]: pytest.mark.xfail(reason=reason) for key, reason in NOT_YET.items() if key[1] == name}
    return [pytest.param(folder, marks=marks.get(folder[:5], ()), id=folder[:5]) for folder in FOLDERS]


@pytest.mark.parametrize("folder", _scripts("bad.py"))
def test_bad_says_exactly_its_rule(said: dict[str, list[dict[str, Any]]], folder: str) -> None:
    code = folder[:5]
    # A rule's own finding counts at any severity: some are information by design.
    shown = {
        finding["code"]
        for finding in said.get(f"rules/{folder}/bad.py", [])
        if finding["code"] == code or finding["severity"] in LOUD
    }
    assert shown == {code}


@pytest.mark.parametrize("folder", _scripts("good.py"))
def test_good_says_nothing(said: dict[str, list[dict[str, Any]]], folder: str) -> None:
    assert [f["message"] for f in said.get(f"rules/{folder}/good.py", []) if f["severity"] in LOUD] == []
