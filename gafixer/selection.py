"""Which rules a scan runs: codes, names and prefixes of codes, for and against."""

from __future__ import annotations

import difflib
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["UnknownRuleError", "codes_of", "narrow", "nearest"]


class UnknownRuleError(ValueError):
    """A selector that no rule answers to. The text is one line with the nearest right word."""


def nearest(word: str, words: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing when no word is near: alike, or begun the same way."""
    wanted = word.casefold()
    scored = [(*_likeness(wanted, known.casefold()), known) for known in words]
    likeness, _, best = max(scored, key=lambda score: score[:2], default=(0.0, 0, ""))
    return f"; did you mean '{best}'?" if likeness > 0.6 else ""


def _likeness(word: str, known: str) -> tuple[float, int]:
    """How alike, and how much of the beginning is: of GA101 and GA110, both one digit off, GA101 is nearer to GA109."""
    matcher = difflib.SequenceMatcher(None, known, word)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(word, known, strict=False)))
    begun = known.startswith(word) and len(word) > 2
    return (0.99 if begun else matcher.ratio(), same)


def codes_of(selector: str, catalogue: Mapping[str, str]) -> frozenset[str]:
    """The codes that a code, a name, a prefix of codes or ALL stands for; `catalogue` maps code to name.

    Raises:
        UnknownRuleError: no rule is meant.
    """
    if selector == "ALL":
        return frozenset(catalogue)
    codes = frozenset(code for code, name in catalogue.items() if code.startswith(selector) or name == selector)
    if not selector or not codes:
        raise UnknownRuleError(
            f"unknown rule '{selector}'{nearest(selector, ['ALL', *catalogue, *catalogue.values()])}"
        )
    return codes


def narrow(base: frozenset[str], on: Sequence[str], off: Sequence[str], catalogue: Mapping[str, str]) -> frozenset[str]:
    """`base` with what `on` adds and `off` takes away. The narrower selector wins, of two equal ones the one in `off`.

    Raises:
        UnknownRuleError: a selector means no rule.
    """
    selected = base
    # Narrow means few rules: ALL, GA, GA1 and GA101 in one list each say more than the one before.
    steps = [(codes_of(word, catalogue), False) for word in off] + [(codes_of(word, catalogue), True) for word in on]
    for codes, wanted in sorted(steps, key=lambda step: (-len(step[0]), not step[1])):
        selected = selected | codes if wanted else selected - codes
    return selected
