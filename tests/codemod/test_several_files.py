"""A fix of several files is shown as one, written whole or not at all, and offered only where all are scanned."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gafixer import fixing, writing
from gafixer.baseline import Baseline
from gafixer.scan import Failure, Scanner
from gafixer.settings import Hierarchy, Layer
from tests.command import REAL, gafixer

if TYPE_CHECKING:
    from collections.abc import Mapping

MODEL = """\
import torch.nn.functional as F
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.tags = nn.Embedding(11, 5)

    def forward(self, words, tags):
        logits = self.tags(words)
        return F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=-100)
"""
TRAIN = """\
import torch
from model import Tagger

model = Tagger()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(loader, steps):
    for i, (x, y) in enumerate(loader, 1):
        (model(x, y) / steps).backward()
        if i % steps == 0 or i == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""
SETTINGS = Hierarchy(isolated=True)
UNSAFE = Hierarchy(Layer(unsafe_fixes=True), isolated=True)
ASKED = 'def forward(self, words, tags, reduction="mean"):'
ALL = ["train.py", "model.py"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def repair(
    *paths: str, settings: Hierarchy = SETTINGS, baseline: Baseline | None = None
) -> tuple[list[fixing.Changed], list[Failure]]:
    """What `--fix` does when these are scanned."""
    scanner = Scanner(settings, paths)
    found = [finding for path in paths for finding in scanner.path(path).findings]
    return fixing.repair(found, Scanner(settings, paths), baseline, paths, keep=True)


def test_both_are_written(folder: Path) -> None:
    changed, failures = repair(*ALL)
    assert (sorted(c.path for c in changed), failures) == (["model.py", "train.py"], [])
    assert [f.code for c in changed for f in c.fixed] == ["GA101"]
    assert ASKED in (folder / "model.py").read_text()
    assert 'model(x, y, reduction="sum")' in (folder / "train.py").read_text()
    assert repair(*ALL, settings=UNSAFE) == ([], [])


def test_names_of_another_folder(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for paths in (["../train.py", "../model.py"], [str(folder / "train.py"), str(folder / "model.py")]):
        (folder / "model.py").write_text(MODEL)
        (folder / "train.py").write_text(TRAIN)
        changed, _ = repair(*paths)
        assert sorted(c.path for c in changed) == sorted(paths)
        assert ASKED in (folder / "model.py").read_text()


def test_a_second_script_uses_what_the_first_brought(folder: Path) -> None:
    (folder / "tune.py").write_text(TRAIN)
    changed, _ = repair(*ALL, "tune.py")
    assert sorted(c.path for c in changed) == ["model.py", "train.py", "tune.py"]
    assert (folder / "model.py").read_text().count("reduction=reduction") == 1
    assert (folder / "tune.py").read_text() == (folder / "train.py").read_text()


def test_diff_of_two_scripts_is_one_patch(folder: Path) -> None:
    (folder / "tune.py").write_text(TRAIN)
    run = gafixer("scan", ".", "--diff", "--isolated", cwd=folder, command=REAL)
    assert "would fix 2 findings in 3 files" in run.stderr
    assert [(folder / name).read_text() for name in (*ALL, "tune.py")] == [TRAIN, MODEL, TRAIN]
    subprocess.run(["git", "apply", "-"], cwd=folder, input=run.stdout.encode(), check=True)
    assert (folder / "model.py").read_text().count("reduction=reduction") == 1
    assert gafixer("scan", ".", "--isolated", cwd=folder, command=REAL).returncode == 0


def test_a_file_of_both_kinds_of_findings_is_mended_once(folder: Path) -> None:
    """The module of the model has a loop of its own."""
    own = TRAIN.replace("from model import Tagger\n", "").replace("import torch\n", "", 1)
    (folder / "model.py").write_text(f"import torch\n{MODEL}\n\n{own}")
    changed, failures = repair(*ALL)
    assert (sorted(c.path for c in changed), failures) == (["model.py", "train.py"], [])
    made = (folder / "model.py").read_text()
    assert made.count("_divide_gradients(model.parameters()") == 1
    assert ASKED in made
    assert repair(*ALL, settings=UNSAFE) == ([], [])


def test_a_file_that_is_not_scanned_is_left_alone(folder: Path) -> None:
    assert repair("train.py") == ([], [])
    changed, _ = repair("train.py", settings=UNSAFE)
    assert [c.path for c in changed] == ["train.py"]
    assert (folder / "model.py").read_text() == MODEL
    assert "(model(x, y) * items).backward()" in (folder / "train.py").read_text()


def test_a_link_is_left_alone(folder: Path) -> None:
    (folder / "model.py").rename(folder / "elsewhere.txt")
    (folder / "model.py").symlink_to(folder / "elsewhere.txt")
    assert repair(*ALL) == ([], [])


def test_a_read_only_file_keeps_the_others_as_they_were(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "model.py").chmod(0o444)
    changed, failures = repair(*ALL)
    assert (changed, [f.line for f in failures]) == ([], ["train.py: not fixed: model.py: read-only file"])
    assert [(folder / name).read_text() for name in ALL] == [TRAIN, MODEL]


def test_a_write_that_fails_puts_back_what_was_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.replace

    def fail(self: Path, target: Path) -> Path:
        if target.name == "train.py":
            raise OSError(28, "No space left on device", str(self))
        return real(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    changed, failures = repair(*ALL)
    assert (changed, [f.line for f in failures]) == ([], ["train.py: not fixed: no space left on device"])
    assert [(folder / name).read_text() for name in ALL] == [TRAIN, MODEL]
    assert sorted(p.name for p in folder.iterdir()) == ["model.py", "train.py"]


def test_what_is_relied_on_is_written_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    real = writing.write_all

    def noted(contents: Mapping[str, bytes]) -> None:
        written.extend(contents)
        real(contents)

    monkeypatch.setattr(writing, "write_all", noted)
    repair(*ALL)
    assert written == ["model.py", "train.py"]


def test_line_ends_of_the_other_file_survive(folder: Path) -> None:
    (folder / "model.py").write_bytes(MODEL.replace("\n", "\r\n").encode())
    repair(*ALL)
    made = (folder / "model.py").read_bytes()
    assert ASKED.encode() in made
    assert made.count(b"\r\n") == made.count(b"\n") == MODEL.count("\n")


def test_comments_and_the_baseline_hold_for_all_files(folder: Path) -> None:
    scanner = Scanner(SETTINGS, ALL)
    found = scanner.path("train.py").findings
    judged = Baseline.empty("known.json").updated(found, lambda place: TRAIN, frozenset())
    assert repair(*ALL, baseline=judged) == ([], [])
    silenced = TRAIN.replace(".backward()", ".backward()  # noqa: GA101")
    (folder / "train.py").write_text(silenced)
    assert repair(*ALL) == ([], [])
    assert (folder / "model.py").read_text() == MODEL


def test_machines_are_told_which_file(folder: Path) -> None:
    def told(output: str) -> dict[str, list[dict[str, object]]]:
        run = gafixer("scan", ".", "--isolated", "--output-format", output, cwd=folder, command=REAL)
        made: dict[str, list[dict[str, object]]] = json.loads(run.stdout)
        return made

    (finding,) = told("json")["findings"]
    fix = finding["fix"]
    assert isinstance(fix, dict)
    assert [edit["location"]["row"] for edit in fix["edits"] if edit.get("filename") == "model.py"] == [10, 12]
    assert any("filename" not in edit for edit in fix["edits"])
    (run,) = told("sarif")["runs"]
    assert isinstance(run["results"], list)
    changes = run["results"][0]["fixes"][0]["artifactChanges"]
    assert [(c["artifactLocation"]["uri"], len(c["replacements"])) for c in changes] == [
        ("train.py", 4),
        ("model.py", 2),
    ]
    (diagnostic,) = told("rdjson")["diagnostics"]
    assert "suggestions" not in diagnostic


def test_fix_only_with_processes(folder: Path) -> None:
    run = gafixer("scan", *ALL, "--fix-only", "--isolated", "-j", "2", cwd=folder, command=REAL)
    assert (run.returncode, run.stdout) == (0, "")
    assert ASKED in (folder / "model.py").read_text()
