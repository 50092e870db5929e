"""Shell completion is click's own; what it offers is asked as a shell asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.command import REAL, gafixer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_the_shell(tmp_path: Path, shell: str) -> None:
    """It calls the command for what to offer."""
    run = gafixer(cwd=tmp_path, command=REAL, env={"_GAFIXER_COMPLETE": f"{shell}_source"})
    assert (run.returncode, "_GAFIXER_COMPLETE" in run.stdout, run.stderr) == (0, True, "")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("gafixer ve", ["plain,verify"]),
        ("gafixer scan --upd", ["plain,--update-baseline"]),
        ("gafixer scan --output-format json", ["plain,json", "plain,json-lines"]),
        ("gafixer scan tr", ["file,tr"]),
        ("gafixer scan --baseline b", ["file,b"]),
        ("gafixer scan --select GA90", ["plain,GA900", "plain,GA901"]),
        ("gafixer scan --ignore GA101,window-d", ["plain,GA101,GA206"]),
        ("gafixer rule unused", ["plain,GA901"]),
        ("gafixer verify --dt", ["plain,--dtype"]),
    ],
)
def test_what_is_offered(tmp_path: Path, words: str, offered: list[str]) -> None:
    """Commands, options and their values, rules by code and name, files."""
    asked = {"_GAFIXER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    run = gafixer(cwd=tmp_path, command=REAL, env=asked)
    assert (run.returncode, run.stdout.splitlines(), run.stderr) == (0, offered, "")
