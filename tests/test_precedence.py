"""Which findings of one site remain."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gafixer import rulebook
from gafixer.findings import Confidence, Finding, Place, Position, Severity, Span
from gafixer.precedence import HIDES, asked, settle

HERE = Place("train.py", Span(Position(1, 1), Position(1, 2)))
PAIRS = [(code, hidden) for code, many in HIDES.items() for hidden in sorted(many)]
LEVELS = (Severity.INFO, Severity.WARNING, Severity.ERROR)


def finding(code: str, severity: Severity = Severity.WARNING) -> Finding:
    """A finding of a rule, at the one place."""
    return Finding(code, rulebook.catalogue()[code], "said", severity, Confidence.HIGH, HERE)


def codes(findings: list[Finding]) -> list[str]:
    """What remains."""
    return [f.code for f in findings]


def test_the_table_names_rules() -> None:
    """That exist, and none that hides itself."""
    named = {code for pair in PAIRS for code in pair}
    assert named <= set(rulebook.catalogue())
    assert all(code != hidden for code, hidden in PAIRS)


@pytest.mark.parametrize(("code", "hidden"), PAIRS)
@pytest.mark.parametrize(("loud", "quiet"), [*itertools.combinations_with_replacement(LEVELS[::-1], 2)])
def test_an_entry_hides(code: str, hidden: str, loud: Severity, quiet: Severity) -> None:
    """One that is as loud or quieter, whichever was said first."""
    for said in ([finding(code, loud), finding(hidden, quiet)], [finding(hidden, quiet), finding(code, loud)]):
        kept = codes(settle(said))
        if loud is quiet and code in HIDES.get(hidden, ()):
            assert kept == codes(said)[:1]  # each hides the other: what was said first stays
        else:
            assert kept == [code]


@pytest.mark.parametrize(("code", "hidden"), PAIRS)
def test_what_may_hide_a_selected_rule_is_asked(code: str, hidden: str) -> None:
    """And what hides none of them is not."""
    assert {code, hidden} <= asked({hidden})
    assert "GA303" not in asked({code, hidden})


@pytest.mark.parametrize(("code", "hidden"), [pair for pair in PAIRS if pair[0] != "GA107"])
def test_a_quieter_finding_hides_no_louder_one(code: str, hidden: str) -> None:
    """Information must not silence an error."""
    assert hidden in codes(settle([finding(code, Severity.INFO), finding(hidden, Severity.ERROR)]))


def test_what_is_not_additive_hides_all_divisions() -> None:
    """No scale repairs it, however loud the advice to change the scale."""
    said = [finding(code, Severity.ERROR) for code in ("GA101", "GA102", "GA104", "GA105")]
    assert codes(settle([*said, finding("GA107", Severity.INFO)])) == ["GA107"]


def test_what_is_hidden_is_hidden_once() -> None:
    """Two that hide the same one do not trip over each other."""
    said = [finding(code) for code in ("GA103", "GA203", "GA101", "GA102")]
    assert codes(settle(said)) == ["GA103", "GA203"]


@given(st.lists(st.builds(finding, st.sampled_from(sorted(rulebook.catalogue())), st.sampled_from(LEVELS)), max_size=8))
def test_settling(said: list[Finding]) -> None:
    """Invents nothing, keeps the order, never loses everything, and is done after one time."""
    kept = settle(said)
    remaining = iter(said)
    assert all(any(f is other for other in remaining) for f in kept)
    assert bool(kept) is bool(said)
    assert settle(kept) == kept
