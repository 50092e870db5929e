"""What code says of the counts of its microbatches."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gafixer.analysis import evidence
from gafixer.analysis.source import Module
from gafixer.data.evidence import DROP_LAST, FIXED, RANKS, VARIES, WHOLE

_LOOKS = {look.pattern.pattern: look for sign in (*VARIES, *FIXED, WHOLE, RANKS, DROP_LAST) for look in sign.looks}


@pytest.mark.parametrize("pattern", _LOOKS)
def test_what_looks_like_a_sign_has_one_of_its_words(pattern: str) -> None:
    """So that a file without them need not be searched."""
    look = _LOOKS[pattern]

    @settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=60)
    @given(st.from_regex(look.pattern))
    def looks_like_it(code: str) -> None:
        assert any(word in code for word in look.words)

    looks_like_it()


def test_a_sign_is_told_from_the_top() -> None:
    """However it looks there."""
    module = Module.read("m", "m.py", b"x = torch.full((2, 2), -1)\nlabels[mask] = -1\npad_id = -1\n", whole=False)
    assert [one.spot.row for one in evidence.signs(VARIES[2], module)] == [1, 2, 3]


def test_a_sign_stands_on_its_own_line() -> None:
    """Not on an empty one above it."""
    source = b"\n\n    targets[mask] = -1\n"
    module = Module.read("m", "m.py", source, whole=False)
    found = [one.spot.row for sign in VARIES for one in evidence.signs(sign, module)]
    assert found == [3]
