"""What a project declares of its own code changes what is found: each row with the declaration, and without."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace

import pytest

from gafixer import engine
from gafixer.analysis.project import MemoryProject
from gafixer.declared import Declared, LossReduction, OwnLoss
from gafixer.findings import Applicability, Finding, Severity
from tests.analysis.scanning import ALL, Said, expected, said, training


@dataclass(frozen=True, slots=True)
class Row:
    """Code with marks of what is found once it is declared."""

    name: str
    source: str
    declared: Declared


def findings(source: str, declared: Declared) -> tuple[Finding, ...]:
    """What is found in a file of a project that declares this."""
    settings = replace(ALL, declared=declared)
    return engine.check_source(source.encode(), "train.py", MemoryProject({}), settings).findings


def loud(source: str, declared: Declared) -> set[Said]:
    """What is shown by default."""
    return said(tuple(f for f in findings(source, declared) if f.severity is not Severity.INFO))


MASKED = Declared(losses=(OwnLoss("masked_nll", target=1, ignored_label=0),))
_IMPORT = "from mylib.losses import masked_nll, MaskedNLL\n"

ROWS = [
    Row(
        "a loss of a library",
        training("loss = masked_nll(model(x), y)\n(loss / n).backward()  # GA101 error", _IMPORT),
        MASKED,
    ),
    Row(
        "by its dotted name",
        training("loss = masked_nll(model(x), y)\n(loss / n).backward()  # GA101 error", _IMPORT),
        Declared(losses=(OwnLoss("mylib.losses.masked_nll", ignored_label=0),)),
    ),
    Row(
        "a class of a library",
        training(
            "(criterion(model(x), y) / n).backward()  # GA101 error",
            f"{_IMPORT}criterion = MaskedNLL(reduction='mean')\n",
        ),
        Declared(losses=(OwnLoss("MaskedNLL", ignored_label=0),)),
    ),
    Row(
        "an object that comes from outside",
        training("(self.criterion(model(x), y) / n).backward()  # GA101 error"),
        Declared(losses=(OwnLoss("criterion", ignored_label=0),)),
    ),
    Row(
        "a function of the project that can't be read",
        training(
            "(lossy(y, model(x)) / n).backward()  # GA101 error",
            "def lossy(targets, outputs):\n    return torch.ops.mine.lossy(targets, outputs)\n",
        ),
        Declared(losses=(OwnLoss("lossy", target="targets", ignored_label=-1),)),
    ),
    Row(
        "a mean that nobody divides",
        training("masked_nll(model(x), y).backward()  # GA104 error", _IMPORT),
        Declared(losses=(OwnLoss("masked_nll", LossReduction.MEAN, ignored_label=0),)),
    ),
    Row(
        "a sum that is divided by the steps",
        training("(masked_nll(model(x), y) / n).backward()  # GA101 warning", _IMPORT),
        Declared(losses=(OwnLoss("masked_nll", LossReduction.SUM, ignored_label=0),)),
    ),
    Row(
        "a name for the steps",
        training(
            "loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)\n"
            "(loss / cumul).backward()  # GA101 error"
        ),
        Declared(steps_names=("cumul",)),
    ),
    Row(
        "a function that divides",
        training(
            "loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)\n"
            "share(loss).backward()  # GA101 error",
            "from mylib import share\n",
        ),
        Declared(divide_functions=("share",)),
    ),
    Row(
        "a function that steps",
        textwrap.dedent("""\
            import torch.nn.functional as F
            from mylib import update
            def train(model, loader, n):
                for i, (x, y) in enumerate(loader):
                    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)
                    (loss / n).backward()  # GA101 error
                    if (i + 1) % n == 0:
                        update(model)
        """),
        Declared(step_functions=("update",)),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_declared(row: Row) -> None:
    """What is marked is found at its row with the declaration, and nothing without it."""
    assert expected(row.source), "the snippet marks no row"
    assert loud(row.source, row.declared) == expected(row.source)
    assert loud(row.source, Declared()) == set()


_TORCH = "F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0, reduction='{}')"


@pytest.mark.parametrize("reduction", LossReduction)
@pytest.mark.parametrize("body", ["({} / n).backward()", "{}.backward()", "({} / (y != 0).sum()).backward()"])
def test_a_declared_loss_is_judged_as_pytorchs_own(reduction: LossReduction, body: str) -> None:
    """The same codes for the same reduction, whoever wrote the loss."""
    if reduction is LossReduction.NONE:
        body = body.replace("{}", "{}.mean()")
    own = training(body.format("masked_nll(model(x), y)"), _IMPORT)
    torch = training(body.format(_TORCH.format(reduction.value)), _IMPORT)
    declared = Declared(losses=(OwnLoss("masked_nll", reduction, 1, 0),))
    assert {code for _, code, _ in loud(own, declared)} == {code for _, code, _ in loud(torch, Declared())}


@pytest.mark.parametrize("keyword", ["", ", reduction='mean'"])
def test_what_scores_every_target_is_exact(keyword: str) -> None:
    """Counts don't vary then: nothing is shown, though something was found when targets are left out."""
    source = training(f"(masked_nll(model(x), y{keyword}) / n).backward()", _IMPORT)
    assert loud(source, Declared(losses=(OwnLoss("masked_nll"),))) == set()
    assert loud(source, MASKED) != set()


def test_other_names_are_not_meant() -> None:
    """Only whole parts of a dotted name."""
    for name in ("nll", "asked_nll", "losses.other.masked_nll", "masked_nll.masked_nll"):
        assert loud(ROWS[0].source, Declared(losses=(OwnLoss(name, ignored_label=0),))) == set()


def test_the_fix_counts_what_was_declared() -> None:
    """It multiplies the mean by the targets that are scored, and says that it takes the project's word for it."""
    (finding,) = (f for f in findings(ROWS[0].source, MASKED) if f.code == "GA101")
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.UNSAFE
    assert "`masked_nll` averages as the settings declare" in finding.fix.message
    assert any("y.ne(0).sum()" in edit.content for edit in finding.fix.edits)


def test_a_division_that_a_function_makes_is_not_rewritten() -> None:
    """Nobody can say what else the function does."""
    row = next(r for r in ROWS if r.name == "a function that divides")
    (finding,) = (f for f in findings(row.source, row.declared) if f.code == "GA101")
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.DISPLAY
