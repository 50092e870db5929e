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


every_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder[:5])


@every_folder
def test_bad_says_exactly_its_rule(said: dict[str, list[dict[str, Any]]], folder: str) -> None:
    code = folder[:5]
    # A rule's own finding counts at any severity: some are information by design.
    shown = {
        finding["code"]
        for finding in said.get(f"rules/{folder}/bad.py", [])
        if finding["code"] == code or finding["severity"] in LOUD
    }
    assert shown == {code}


@every_folder
def test_good_says_nothing(said: dict[str, list[dict[str, Any]]], folder: str) -> None:
    assert [f["message"] for f in said.get(f"rules/{folder}/good.py", []) if f["severity"] in LOUD] == []
