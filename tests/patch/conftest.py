"""The patch is off while tests are collected, and on only inside the tests that ask for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_before = os.environ.get("GAFIXER_PATCH")
os.environ["GAFIXER_PATCH"] = "0"
import gafixer.patch  # noqa: E402  # the variable is read by the import

if _before is None:
    del os.environ["GAFIXER_PATCH"]
else:
    os.environ["GAFIXER_PATCH"] = _before


@pytest.fixture
def patched() -> Iterator[None]:
    """The patch on, for one test."""
    with gafixer.patch.patched():
        yield
