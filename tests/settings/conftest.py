"""Settings are tested against four rules, whatever rules there are."""

from __future__ import annotations

import pytest

from gafixer import rulebook

CATALOGUE = {"GA101": "mean-over-steps", "GA102": "short-window", "GA110": "made-up", "GA201": "window-leaks"}


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rules."""
    monkeypatch.setattr(rulebook, "catalogue", lambda: CATALOGUE)
