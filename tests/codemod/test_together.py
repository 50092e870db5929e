"""The fixes of one file are verified together where they go together, and one by one where they don't."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer import judgement
from gafixer.codemod import edits
from gafixer.findings import Applicability
from tests.codemod.fixer import findings, fix

if TYPE_CHECKING:
    import pytest

    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Module
    from gafixer.codemod.fixes import Said
    from gafixer.findings import Finding
    from gafixer.settings import Settings

IMPORTS = "from torch import nn\nfrom transformers import PreTrainedModel\n"
#: A head whose loss never sees the count.
HEAD = """
class {name}ForTokenClassification(PreTrainedModel):
    def forward(self, input_ids, labels=None, **kwargs):
        logits = self.classifier(input_ids)
        loss = {loss}
        return loss, logits
"""
MENDED = "nn.CrossEntropyLoss()(logits.view(-1, 2), labels.view(-1))"
#: Its square is no mean of items.
UNKNOWN = f"{MENDED} ** 2"
#: Its first plan shows what a second one mends.
TWICE = f"max({MENDED}, 0)"


def heads(*losses: str) -> str:
    """A file with a head for each loss."""
    return IMPORTS + "".join(HEAD.format(name="ABC"[i], loss=loss) for i, loss in enumerate(losses))


def scans(source: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Finding], int]:
    """What is said of a file, and how many changed files that took to look at."""
    seen = []
    shown = judgement.shown

    def looked(module: Module, project: Project, settings: Settings) -> tuple[list[Said], list[Finding]]:
        seen.append(module)
        return shown(module, project, settings)

    with monkeypatch.context() as patch:
        patch.setattr(judgement, "shown", looked)
        return findings(source), len(seen)


def applied(source: str, finding: Finding) -> str:
    """The source after the edits of one finding."""
    assert finding.fix is not None
    return edits.apply(source, finding.fix.edits)


def test_one_scan_verifies_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each fix by itself is what it is for a file with this head alone."""
    source = heads(MENDED, MENDED, MENDED)
    found, looked = scans(source, monkeypatch)
    assert [f.code for f in found] == ["GA303"] * 3
    assert looked == 1
    for finding in found:
        assert finding.fix is not None
        assert finding.fix.applicability is not Applicability.DISPLAY
        assert len(findings(applied(source, finding))) == 2


def test_what_cannot_be_mended_keeps_no_other_from_it() -> None:
    """A head whose loss isn't known is told in words."""
    found = findings(heads(MENDED, UNKNOWN, MENDED))
    made = [f.fix.applicability is not Applicability.DISPLAY for f in found if f.fix is not None]
    assert made == [True, False, True]


def test_where_all_together_show_more_each_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixes of the others are the same, and so is that of the one."""
    found, looked = scans(heads(MENDED, TWICE, MENDED), monkeypatch)
    assert looked > 3
    messages = [f.fix.message for f in found if f.fix is not None]
    assert len(messages) == 3
    assert messages[0] == messages[2]
    assert messages[1].endswith(f"; {messages[0]}")


def test_fixing_makes_what_the_scan_offers() -> None:
    """All at once leave nothing to say."""
    assert findings(fix(heads(MENDED, MENDED), unsafe=True)) == []
