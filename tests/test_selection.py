"""Selectors: what each means, and which of two wins."""

from __future__ import annotations

import pytest

from gafixer import selection
from gafixer.selection import codes_of, narrow

CATALOGUE = {"GA101": "mean-over-steps", "GA102": "short-window", "GA110": "made-up", "GA201": "window-leaks"}


@pytest.mark.parametrize(
    ("selector", "codes"),
    [
        ("ALL", "101 102 110 201"),
        ("GA", "101 102 110 201"),
        ("GA1", "101 102 110"),
        ("GA10", "101 102"),
        ("GA101", "101"),
        ("window-leaks", "201"),
    ],
)
def test_selectors(selector: str, codes: str) -> None:
    """Codes, prefixes of codes, names, ALL."""
    assert codes_of(selector, CATALOGUE) == {f"GA{code}" for code in codes.split()}


@pytest.mark.parametrize(
    ("selector", "near"),
    [
        ("GA103", "GA101"),
        ("ga101", "GA101"),
        ("all", "ALL"),
        ("mean_over_steps", "mean-over-steps"),
        ("short", "short-window"),
        ("", None),
        ("E501", None),
    ],
)
def test_unknown_selector(selector: str, near: str | None) -> None:
    """The nearest right word, when there is one."""
    with pytest.raises(selection.UnknownRuleError) as caught:
        codes_of(selector, CATALOGUE)
    assert str(caught.value) == f"unknown rule '{selector}'" + (f"; did you mean '{near}'?" if near else "")


@pytest.mark.parametrize(
    ("on", "off", "codes"),
    [
        (["GA1"], ["GA101"], "102 110"),
        (["GA101"], ["GA1"], "101"),
        (["ALL"], ["GA1", "window-leaks"], ""),
        (["GA1", "GA101"], ["GA10"], "101 110"),
        (["GA101"], ["mean-over-steps"], ""),
        (["GA2"], ["GA201"], ""),
    ],
)
def test_the_narrower_selector_wins(on: list[str], off: list[str], codes: str) -> None:
    """Whatever the order; of two equal ones the one that ignores."""
    assert narrow(frozenset(), on, off, CATALOGUE) == {f"GA{code}" for code in codes.split()}
