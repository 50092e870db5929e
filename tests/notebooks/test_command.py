"""Notebooks on the command line: found in folders, named, from standard input, fixed in place."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.command import REAL, gafixer
from tests.notebooks.making import cut, markdown, notebook, sources

if TYPE_CHECKING:
    from collections.abc import Mapping

BAD = (Path(__file__).parents[2] / "rules" / "GA101_mean_over_steps" / "bad.py").read_text()
CELLS = [markdown("# Training"), "!pip install torch", "%%bash\nls", *cut(BAD)]
#: The cell, the row and the column of the division.
CELL = next(number for number, cell in enumerate(CELLS, 1) if "loss = loss / steps" in cell)
ROW = 1 + next(row for row, line in enumerate(CELLS[CELL - 1].split("\n")) if "loss / steps" in line)
PLACE = f"cell {CELL}:{ROW}:16"
DOCUMENT = notebook(*CELLS)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a notebook in a folder, a checkpoint of it, and one that git ignores."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for name in ("work/nb.ipynb", "work/.ipynb_checkpoints/nb-checkpoint.ipynb", "work/scratch_nb.ipynb"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(DOCUMENT)
    (tmp_path / ".gitignore").write_text("scratch*.ipynb\n")
    return tmp_path


def says(run: subprocess.CompletedProcess[str]) -> Mapping[str, object]:
    """Its only finding, from JSON."""
    (finding,) = json.loads(run.stdout)["findings"]
    assert isinstance(finding, dict)
    return finding


def test_places(project: Path) -> None:
    """As ruff gives them, and in JSON the number of the cell."""
    run = gafixer("scan", "--output-format", "concise", cwd=project, command=REAL)
    assert run.returncode == 1
    assert run.stdout.startswith(f"work/nb.ipynb:{PLACE}: GA101 [*] ")
    assert run.stdout.count("\n") == 1
    finding = says(gafixer("scan", "--output-format", "json", cwd=project, command=REAL))
    assert (finding["filename"], finding["cell"]) == ("work/nb.ipynb", CELL)
    assert finding["location"] == {"row": ROW, "column": 16}


@pytest.mark.parametrize("output", ["github", "gitlab", "junit", "rdjson", "sarif"])
def test_formats_that_know_files_only(project: Path, output: str) -> None:
    """The place in the notebook is in what is said, and no change of the document is offered by rows of a cell."""
    shown = gafixer("scan", "--output-format", output, cwd=project, command=REAL).stdout
    assert PLACE in shown
    assert "_divide_gradients" not in shown
    assert '"startLine": ' not in shown.replace('"startLine": 1,', "")


def test_full(project: Path) -> None:
    """The lines of the cell, and what is in another cell by its place."""
    run = gafixer("scan", cwd=project, command=REAL)
    assert run.stdout.startswith(f"work/nb.ipynb:{PLACE}: GA101")
    assert f" {ROW} |         loss = loss / steps\n" in run.stdout
    assert "= work/nb.ipynb:cell 7:" in run.stdout
    assert "gafixer ipython" not in run.stdout


def test_fixed_in_place(project: Path) -> None:
    """Once, and then there is nothing to do."""
    run = gafixer("scan", "--fix", "--show-fixes", cwd=project, command=REAL)
    assert run.returncode == 0
    assert f"fixed work/nb.ipynb:cell {CELL}:{ROW}: GA101" in run.stderr
    after = (project / "work/nb.ipynb").read_text()
    assert "_divide_gradients(model.parameters(), num_items)" in sources(after)[CELL - 1]
    assert gafixer("scan", "--diff", cwd=project, command=REAL).stdout == ""


def test_standard_input(project: Path) -> None:
    """The kind is told by the given name; fixed, the document comes out."""
    arguments = ("scan", "-", "--stdin-filename", "nb.ipynb")
    run = gafixer(*arguments, "--output-format", "concise", cwd=project, command=REAL, stdin=DOCUMENT)
    assert run.stdout.startswith(f"nb.ipynb:{PLACE}: GA101")
    diff = gafixer(*arguments, "--diff", cwd=project, command=REAL, stdin=DOCUMENT)
    assert diff.returncode == 1
    assert diff.stdout.startswith(f"--- nb.ipynb:cell {CELL}\n+++ nb.ipynb:cell {CELL}\n")
    fixed = gafixer(*arguments, "--fix", cwd=project, command=REAL, stdin=DOCUMENT)
    gafixer("scan", "--fix", cwd=project, command=REAL)
    assert fixed.returncode == 0
    assert fixed.stdout == (project / "work/nb.ipynb").read_text()
    plain = gafixer(*arguments, "--fix", cwd=project, command=REAL, stdin=notebook("x = 1"))
    assert plain.stdout == notebook("x = 1")


def test_trace(project: Path) -> None:
    """A line of a cell, and the places that are told."""
    run = gafixer("scan", "--trace", f"work/nb.ipynb:cell {CELL}:{ROW}", cwd=project, command=REAL)
    assert run.returncode == 0
    assert f"  at work/nb.ipynb:cell {CELL}:{ROW + 1}:9" in run.stdout
    for where, told in [
        ("work/nb.ipynb:3", "name the cell too, as in work/nb.ipynb:cell 3:3"),
        ("work/nb.ipynb:cell 1:1", "cell 1 holds no Python"),
        ("work/nb.ipynb:cell 99:1", "cell 99 holds no Python"),
    ]:
        run = gafixer("scan", "--trace", where, cwd=project, command=REAL)
        assert run.returncode == 2
        assert told in run.stderr


def test_unreadable(tmp_path: Path) -> None:
    """A notebook that is none, and one whose cell is no Python: a finding, with the text there."""
    (tmp_path / "a.ipynb").write_text("backward {")
    (tmp_path / "b.ipynb").write_text(notebook("x = 1", "loss.backward() {"))
    run = gafixer("scan", "--output-format", "full", cwd=tmp_path, command=REAL)
    assert run.returncode == 1
    assert "a.ipynb:1:1: GA900" in run.stdout
    assert "1 | backward {\n" in run.stdout
    assert "b.ipynb:cell 2:1:" in run.stdout
    assert "1 | loss.backward() {\n" in run.stdout
