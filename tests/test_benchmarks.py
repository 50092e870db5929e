"""The benchmark command works; what it measures is asserted nowhere."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks import report, table
from tests.benchmarks.timing import Command, Comparison, Run, compare

if TYPE_CHECKING:
    from pathlib import Path


def test_one_command(tmp_path: Path) -> None:
    """A table with a row for each tree."""
    (tmp_path / "a.py").write_text("x = 1\n")
    command = [sys.executable, "-m", "tests.benchmarks", "--against", "click", "--pairs", "1", str(tmp_path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(shown) == 4
    assert shown[3].startswith(f"| {tmp_path.name} ")


def test_readme_shows_what_was_measured() -> None:
    """The tables are those of the figures that are kept, to the letter."""
    figures = json.loads(report.FIGURES.read_text(encoding="utf-8"))
    assert table.table(figures) in table.README.read_text(encoding="utf-8")


def test_what_is_ready_before_each_run(tmp_path: Path) -> None:
    """Of a command that changes its file, each run finds the file as it was."""
    file = tmp_path / "once"
    takes = Command("takes", (sys.executable, "-c", f"import os; os.remove({str(file)!r})"), {})
    compared = compare(takes, takes, 2, before=file.touch)
    assert (len(compared.ours), len(compared.theirs)) == (2, 2)


def test_a_failed_run_has_no_time() -> None:
    """It is an error, with what the program said."""
    fails = Command("fails", (sys.executable, "-c", "import sys; sys.exit('no such thing')"), {})
    with pytest.raises(RuntimeError, match="fails: exit 1: no such thing"):
        compare(fails, fails, 1)


def test_ratio_is_that_of_the_medians() -> None:
    """One slow run on either side does not decide."""

    def runs(*seconds: float) -> tuple[Run, ...]:
        return tuple(Run(second, 10.0, 2 * second) for second in seconds)

    compared = Comparison(runs(1.0, 1.0, 9.0), runs(2.0, 0.5, 2.0))
    assert (compared.seconds, compared.ratio, compared.spread) == ((1.0, 2.0), 0.5, (0.5, 4.5))
    assert compared.work == 0.5


def test_growth(tmp_path: Path) -> None:
    """Trees of the sizes that were asked for, and the line through them."""
    (tmp_path / "a.py").write_text("x = 1\n")
    command = [sys.executable, "-m", "tests.benchmarks.growth", str(tmp_path), "--counts", "1,120", "--times", "1"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split()[:2] for line in shown[1:3]] == [["1", "files"], ["120", "files"]]
    assert shown[3].endswith(" us a file")
