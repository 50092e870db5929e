"""The GitHub Action: its shell steps are run with stand-ins for Python and gafixer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command import REAL

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
INSTALL, SCAN, RESULT = (step for step in STEPS if "run" in step)
NASTY = "$(touch pwned) `touch pwned` \"; touch pwned; ' && touch pwned #"

#: Writes down how it was called; as `python -m venv DIR` it leaves itself there under the names that the steps use.
STAND_IN = f"""\
#!{sys.executable} -I
import json, os, shutil, sys
with open(os.environ["CALLS"], "a") as calls:
    print(json.dumps(sys.argv[1:]), file=calls)
if sys.argv[1:3] == ["-m", "venv"]:
    os.makedirs(sys.argv[3] + "/bin")
    for name in ("python", "gafixer"):
        shutil.copy(sys.argv[0], sys.argv[3] + "/bin/" + name)
sys.exit(int(os.environ.get("FAILS", 0)) if sys.argv[1] == "scan" else 0)
"""


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """A folder for the runner, with a Python that is none."""
    for name in ("temp", "work"):
        (tmp_path / name).mkdir()
    python = tmp_path / "python"
    python.write_text(STAND_IN)
    python.chmod(0o755)
    return tmp_path


def run(step: dict[str, Any], runner: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A step's script, as the runner runs bash: with the inputs in variables that the step declares."""
    assert step["shell"] == "bash"
    assert variables.keys() <= {*step.get("env", {}), "FAILS"}
    ours = {
        "PATH": os.environ["PATH"],
        "RUNNER_TEMP": str(runner / "temp"),
        "GITHUB_OUTPUT": str(runner / "output"),
        "CALLS": str(runner / "calls"),
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(
        command, cwd=runner / "work", env=ours | variables, capture_output=True, text=True, timeout=60, check=False
    )


def installed(runner: Path, version: str = "") -> list[list[str]]:
    """The calls of the installing step."""
    assert run(INSTALL, runner, PYTHON=str(runner / "python"), VERSION=version, SOURCE="/the action").returncode == 0
    return calls(runner)


def calls(runner: Path) -> list[list[str]]:
    """How the stand-ins were called, since the last time this was asked."""
    path = runner / "calls"
    found = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    return found


def test_inputs_reach_scripts_as_variables_only() -> None:
    """An expression in a script would be text of the script; every input is used somewhere."""
    for step in STEPS:
        assert "${{" not in step.get("run", "")
    used = json.dumps([(step.get("env"), step.get("if")) for step in STEPS])
    assert ACTION["inputs"].keys() == {"paths", "args", "version", "format"}
    assert all(f"inputs.{name}" in used for name in ACTION["inputs"])


@pytest.mark.parametrize(
    ("version", "requirement"),
    [("", "/the action"), ("0.1.0", "gafixer==0.1.0"), (NASTY, f"gafixer=={NASTY}")],
)
def test_install(runner: Path, version: str, requirement: str) -> None:
    """Into an environment of its own; what is asked for is one word behind the options."""
    made, pip = installed(runner, version)
    assert made == ["-m", "venv", str(runner / "temp" / "gafixer")]
    assert pip[:3] == ["-m", "pip", "install"]
    assert pip[-2:] == ["--", requirement]
    assert not (runner / "work" / "pwned").exists()


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({}, ["--output-format", "github", "--", "."]),
        ({"PATHS": "src\ntests\n"}, ["--output-format", "github", "--", "src", "tests"]),
        ({"PATHS": "my code\n-x\n*\n"}, ["--output-format", "github", "--", "my code", "-x", "*"]),
        (
            {"PATHS": NASTY, "ARGS": "--select GA1\n  --ignore *"},
            ["--select", "GA1", "--ignore", "*", "--output-format", "github", "--", NASTY],
        ),
        ({"ARGS": NASTY}, [*NASTY.split(), "--output-format", "github", "--", "."]),
        ({"PATHS": ""}, ["--output-format", "github", "--"]),
        ({"FORMAT": "sarif"}, ["--output-format", "sarif", "--output-file", "TEMP/gafixer.sarif", "--", "."]),
    ],
)
def test_scan(runner: Path, inputs: dict[str, str], expected: list[str]) -> None:
    """Every path is one word, whatever is in it; nothing is expanded."""
    installed(runner)
    (runner / "work" / "a file").touch()
    defaults = {name.upper(): value["default"] for name, value in ACTION["inputs"].items() if name != "version"}
    assert run(SCAN, runner, **(defaults | inputs)).returncode == 0
    assert calls(runner) == [["scan", *(word.replace("TEMP", str(runner / "temp")) for word in expected)]]
    assert not (runner / "work" / "pwned").exists()


@pytest.mark.parametrize(("fails", "scan", "result"), [("0", 0, 0), ("1", 0, 1), ("2", 1, 2)])
def test_result(runner: Path, fails: str, scan: int, result: int) -> None:
    """Findings fail the job after the upload, anything else at once."""
    installed(runner)
    assert run(SCAN, runner, PATHS=".", ARGS="", FORMAT="annotations", FAILS=fails).returncode == scan
    name, _, code = (runner / "output").read_text().strip().partition("=")
    assert name == "code"
    assert run(RESULT, runner, CODE=code).returncode == result
    order = [STEPS.index(SCAN), next(i for i, s in enumerate(STEPS) if "upload-sarif" in s.get("uses", ""))]
    assert order == sorted(order)
    assert order[-1] < STEPS.index(RESULT)


def test_wrong_format(runner: Path) -> None:
    """Told as an annotation."""
    installed(runner)
    wrong = run(SCAN, runner, PATHS=".", ARGS="", FORMAT="xml")
    assert wrong.returncode == 2
    assert wrong.stdout.startswith("::error")


@pytest.mark.parametrize("output", ["annotations", "sarif"])
def test_with_the_real_command(runner: Path, output: str) -> None:
    """The options that the step writes are the command's."""
    installed(runner)
    command = runner / "temp" / "gafixer" / "bin" / "gafixer"
    command.write_text(f'#!/bin/sh\nexec {" ".join(REAL)} "$@"\n')
    (runner / "work" / "bad.py").write_text((ROOT / "rules" / "GA101_mean_over_steps" / "bad.py").read_text())
    scanned = run(SCAN, runner, PATHS=".", ARGS="", FORMAT=output)
    assert scanned.returncode == 0, scanned.stderr
    assert (runner / "output").read_text() == "code=1\n"
    if output == "sarif":
        document = json.loads((runner / "temp" / "gafixer.sarif").read_text())
        assert [r["ruleId"] for r in document["runs"][0]["results"]] == ["GA101"]
    else:
        assert scanned.stdout.startswith("::error ")
        assert "file=bad.py,line=50" in scanned.stdout
