"""Shell completion is click's own; what it offers is ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.command import REAL, gafixer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("gafixer sc", ["plain,scan"]),
        ("gafixer rule GA90", ["plain,GA900", "plain,GA901"]),
        ("gafixer rule window-l", ["plain,window-leaks"]),
        ("gafixer scan --output-format conc", ["plain,concise"]),
        ("gafixer scan --show-fi", ["plain,--show-files", "plain,--show-fixes"]),
        ("gafixer scan tr", ["file,tr"]),
    ],
)
def test_what_is_offered(words: str, offered: list[str], tmp_path: Path) -> None:
    """Commands, options and their choices, rules by code and name, files."""
    environment = {
        "_GAFIXER_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    run = gafixer(cwd=tmp_path, command=REAL, env=environment)
    assert sorted(run.stdout.split()) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell: str, tmp_path: Path) -> None:
    """What README says to evaluate."""
    run = gafixer(cwd=tmp_path, command=REAL, env={"_GAFIXER_COMPLETE": f"{shell}_source"})
    assert run.returncode == 0
    assert "_GAFIXER_COMPLETE" in run.stdout
