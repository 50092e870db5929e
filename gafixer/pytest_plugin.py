"""The pytest plugin: a fixture that pins a training step's parity. Nothing heavy is imported until it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from gafixer.parity.figures import Figures

__all__ = ["assert_parity"]


@pytest.fixture
def assert_parity() -> Callable[..., Figures]:
    """`gafixer.parity.assert_parity`: fails with the figures and what they mean."""
    from gafixer.parity import assert_parity

    return assert_parity
