"""What the codemod makes of a rule's bad.py is its good.py, to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from gafixer.findings import Applicability
from tests.codemod.fixer import findings, fix

RULES = Path(__file__).parents[2] / "rules"
PAIRS = sorted(path.parent for path in RULES.glob("GA*/bad.py"))
#: Several denominators in one expression: told, not rewritten.
BY_HAND = {"GA106"}
#: Which of two is meant, the loss or the switch, is assumed.
ASSUMED = {"GA304"}

pairs = pytest.mark.parametrize("folder", PAIRS, ids=lambda folder: folder.name[:5])


@pairs
def test_bad_becomes_good(folder: Path) -> None:
    bad, good = ((folder / name).read_text(encoding="utf-8") for name in ("bad.py", "good.py"))
    code = folder.name[:5]
    assert fix(bad, unsafe=code in ASSUMED) == (bad if code in BY_HAND else good)
    assert code not in ASSUMED or fix(bad) == bad


@pairs
def test_good_stays(folder: Path) -> None:
    good = (folder / "good.py").read_text(encoding="utf-8")
    assert fix(good, unsafe=True) == good


@pairs
def test_every_finding_tells_of_its_fix(folder: Path) -> None:
    found = findings((folder / "bad.py").read_text(encoding="utf-8"))
    assert found
    for finding in found:
        assert finding.fix is not None
        display = finding.fix.applicability is Applicability.DISPLAY
        assert display == (not finding.fix.edits) == (folder.name[:5] in BY_HAND)
