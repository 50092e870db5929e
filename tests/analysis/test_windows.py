"""Each way of writing a window is read as what it is."""

from __future__ import annotations

import pytest

from gafixer.analysis.spelling import text
from gafixer.analysis.windows import Shape
from tests.analysis.scanning import sites
from tests.analysis.windows import GUARDED, Loop


@pytest.mark.parametrize("loop", GUARDED, ids=lambda loop: loop.name)
def test_window(loop: Loop) -> None:
    """Its shape, its number of steps, its first window, and what happens to the left-over one."""
    windows = [site.window for site in sites(loop.source, **loop.modules)]
    assert windows
    window = windows[-1]
    guard = window.guard
    assert window.shape is loop.shape
    assert window.flushes is loop.flushes
    if loop.steps is not None:
        assert text(window.steps).rsplit(".", 1)[-1] == loop.steps.rsplit(".", 1)[-1]
    if loop.shape is Shape.GUARDED:
        assert guard is not None
        assert guard.first == loop.first


@pytest.mark.parametrize("loop", GUARDED, ids=lambda loop: loop.name)
def test_step_and_loop(loop: Loop) -> None:
    """Every window but one without a step ends with a step, and has a loop."""
    for site in sites(loop.source, **loop.modules):
        assert (site.window.step is None) is (loop.shape is Shape.UNSEEN)
        assert site.window.loop is not None
