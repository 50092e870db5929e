"""The small projects of fixtures/: what `gafixer scan` says is what their expected.json says, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import REAL, gafixer

FIXTURES = Path(__file__).parents[1] / "fixtures"
PROJECTS = sorted(path.parent.name for path in FIXTURES.glob("*/expected.json"))

every_project = pytest.mark.parametrize("project", PROJECTS)

Said = tuple[str, int, str, str]


def _expected(path: Path) -> set[Said]:
    entries = json.loads(path.read_text(encoding="utf-8"))
    return {(entry["filename"], entry["row"], entry["code"], entry["severity"]) for entry in entries}


def _scan(project: str, severity: str) -> set[Said]:
    run = gafixer(
        *("scan", ".", "--isolated", "--min-severity", severity, "--output-format", "json"),
        cwd=FIXTURES / project,
        command=REAL,
    )
    assert run.returncode in {0, 1}, run.stderr
    findings = json.loads(run.stdout)["findings"]
    return {(f["filename"], f["location"]["row"], f["code"], f["severity"]) for f in findings}


@every_project
def test_says_what_is_expected(project: str) -> None:
    assert _scan(project, "warning") == _expected(FIXTURES / project / "expected.json")


@pytest.mark.parametrize("project", sorted(path.parent.name for path in FIXTURES.glob("*/expected_info.json")))
def test_says_information(project: str) -> None:
    assert _expected(FIXTURES / project / "expected_info.json") <= _scan(project, "info")
