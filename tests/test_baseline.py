"""What is known stays known when lines move, what is new is reported, and what is gone is told."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from gafixer.baseline import Baseline
from gafixer.findings import Finding, Place, Position, Span
from gafixer.fingerprint import Key, key
from gafixer.settings import SettingsError
from tests.command import gafixer
from tests.report.findings import finding, place

CODE = """\
class Trainer:
    def train(self, loss, steps):
        # words
        if steps:
            (loss / steps).backward()
        other = call(
            loss,
        )

def evaluate(loss, steps):
    (loss  /  steps).backward()
"""


def at(text: str, word: str) -> Finding:
    """A finding at the first place of some code."""
    before = text[: text.index(word)]
    after = before + word
    start, end = (Position(part.count("\n") + 1, len(part) - part.rfind("\n")) for part in (before, after))
    return finding(Place("a.py", Span(start, end)))


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("loss / steps", Key("a.py", "GA101", "Trainer.train", "loss / steps")),
        ("loss  /  steps", Key("a.py", "GA101", "evaluate", "loss / steps")),
        ("call(\n            loss,\n        )", Key("a.py", "GA101", "Trainer.train", "call( loss, )")),
        ("def evaluate", Key("a.py", "GA101", "", "def evaluate")),
    ],
)
def test_key(word: str, known: Key) -> None:
    """The rule, the definitions around, and the code; not the row, not blanks."""
    assert key(at(CODE, word), "a.py", CODE) == known
    moved = "import torch\n\n" + CODE.replace("        # words\n", "").replace("    ", "\t")
    spelled = word.replace("    ", "\t")
    assert key(at(moved, spelled), "a.py", moved) == known


def test_key_without_the_text() -> None:
    """Where a file is gone, or the place lies beyond its end."""
    assert key(finding(place("a.py", 3, 1, 5)), "a.py", None) == Key("a.py", "GA101", "", "")
    assert key(finding(place("a.py", 3, 1, 5, end_row=9)), "a.py", "x\ny\nz = 1") == Key("a.py", "GA101", "", "z = 1")


def test_as_many_as_are_known() -> None:
    """Of three alike two are known: the third is new."""
    text = "a = loss / n\n" * 3
    found = [finding(place("a.py", row, 5, 13)) for row in (1, 2, 3)]
    known = Key("a.py", "GA101", "", "loss / n")
    compared = Baseline(Path("b.json"), Counter({known: 2})).compare(found, lambda where: text)
    assert (compared.new, compared.known, compared.left) == ((found[2],), 2, Counter())
    assert Baseline(Path("b.json"), Counter({known: 4})).compare(found, lambda where: text).left == {known: 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not a baseline: Expecting"),
        ("[]", "not a baseline"),
        ('{"version": 1}', "not a baseline"),
        ('{"version": 2, "findings": []}', "a baseline of version 2, and not 1"),
        ('{"version": 1, "findings": [{"filename": "a.py"}]}', "not a baseline"),
        (
            '{"version": 1, "findings": [{"filename": 1, "code": "", "scope": "", "text": "", "count": 1}]}',
            "not a baseline",
        ),
    ],
)
def test_what_is_none(tmp_path: Path, text: str, said: str) -> None:
    """It is named, with the reason."""
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(SettingsError, match=said):
        Baseline.read(str(tmp_path / "b.json"))


ONE = "y = 2  # GA101 error safe\n"
TWO = "z = 3  # GA201 warning\n"
UPDATE = ("--baseline", "known/b.json", "--update-baseline")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two files with a finding each, and a baseline of both in another folder."""
    (tmp_path / "known").mkdir()
    (tmp_path / "one.py").write_text(ONE)
    (tmp_path / "two.py").write_text(TWO)
    made = gafixer("scan", *UPDATE, cwd=tmp_path)
    assert (made.returncode, made.stdout) == (0, "")
    assert "known/b.json: 2 known findings, before 0\n" in made.stderr
    return tmp_path


def entries(project: Path) -> list[tuple[str, str]]:
    """File and rule of all that is known."""
    return [(e["filename"], e["code"]) for e in json.loads((project / "known" / "b.json").read_text())["findings"]]


def test_known_is_not_reported(project: Path) -> None:
    """From any folder; moved or not; what is new is."""
    assert entries(project) == [("../one.py", "GA101"), ("../two.py", "GA201")]
    for folder, path in [(project, "."), (project / "known", "..")]:
        run = gafixer("scan", path, "--baseline", str(project / "known" / "b.json"), cwd=folder)
        assert (run.returncode, run.stdout) == (0, "")
        assert "found nothing (2 in the baseline) in 2 files" in run.stderr
    (project / "one.py").write_text(f"\n\n{ONE}w = 1  # GA501 warning\n")
    run = gafixer("scan", "--baseline", "known/b.json", "--output-format", "concise", cwd=project)
    assert (run.returncode, run.stdout.count("\n")) == (1, 1)
    assert run.stdout.startswith("one.py:4:10: GA501 ")
    assert "no longer found" not in run.stderr


def test_known_is_not_mended(project: Path) -> None:
    """Nor shown in a patch."""
    for arguments in (["--fix"], ["--diff"]):
        run = gafixer("scan", "--baseline", "known/b.json", *arguments, cwd=project)
        assert (run.returncode, run.stdout) == (0, "")
    assert (project / "one.py").read_text() == ONE


def test_stale_entries_are_told(project: Path) -> None:
    """Those of files that were scanned or are gone, and of rules that are on; the exit code stays."""
    baseline = ("--baseline", "known/b.json")
    (project / "one.py").write_text("y = 2\n")
    (project / "two.py").unlink()
    run = gafixer("scan", *baseline, cwd=project)
    assert run.returncode == 0
    assert "known/b.json: no longer found: ../one.py: GA101 GA101 error safe\n" in run.stderr
    assert "known/b.json: no longer found: ../two.py: GA201 GA201 warning\n" in run.stderr
    assert "known/b.json: --update-baseline takes them out\n" in run.stderr
    (project / "two.py").write_text(TWO)
    assert "no longer found" not in gafixer("scan", "two.py", *baseline, cwd=project).stderr
    assert "no longer found" not in gafixer("scan", "--select", "GA2", *baseline, cwd=project).stderr


def test_update_leaves_what_was_not_looked_at(project: Path) -> None:
    """A scan of one file, or of some rules, says nothing about the others."""
    (project / "one.py").write_text("y = 2\n")
    (project / "two.py").write_text("z = 3\n")
    assert gafixer("scan", "two.py", *UPDATE, cwd=project).returncode == 0
    assert entries(project) == [("../one.py", "GA101")]
    assert gafixer("scan", "--select", "GA2", *UPDATE, cwd=project).returncode == 0
    assert entries(project) == [("../one.py", "GA101")]
    assert gafixer("scan", *UPDATE, cwd=project).returncode == 0
    assert entries(project) == []


def test_many_stale_entries_are_counted(project: Path) -> None:
    """Ten are named."""
    text = "".join(f"a{number} = 1  # GA101 error  # {number}\n" for number in range(13))
    (project / "one.py").write_text(text.replace("GA101 error", "GA101 error safe"))
    document = json.loads((project / "known" / "b.json").read_text())
    document["findings"] = [
        {"filename": "../one.py", "code": "GA201", "scope": "", "text": f"gone {number}", "count": 1}
        for number in range(13)
    ]
    (project / "known" / "b.json").write_text(json.dumps(document))
    run = gafixer("scan", "one.py", "--baseline", "known/b.json", "-e", cwd=project)
    assert run.stderr.count("no longer found: ") == 10
    assert "known/b.json: 3 more are no longer found; --update-baseline takes them out\n" in run.stderr


def test_no_update_of_half_a_scan(project: Path) -> None:
    """What could not be scanned would be taken for mended."""
    before = entries(project)
    (project / "two.py").write_text("crash")
    run = gafixer("scan", *UPDATE, cwd=project)
    assert (run.returncode, entries(project)) == (2, before)
    assert "known/b.json: not updated, since the scan is not whole\n" in run.stderr
