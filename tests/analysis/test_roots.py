"""Which functions are run: those that may go backward, as far as their text tells."""

from __future__ import annotations

import pytest

from gafixer.analysis import roots
from gafixer.analysis.project import MemoryProject
from gafixer.analysis.source import Module

_FUNCTION = "def run(model, loss, optimizer):\n    {}\n"


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("loss.backward()", 1),
        ("loss.backward ()", 1),
        ("torch.autograd.backward(loss)", 1),
        ("getattr(loss, 'backward')()", 1),
        ("optimizer.step(closure=backward)", 1),
        ("backward_step(loss)", 1),
        ("run_forward_backward(model, loss)", 1),
        ("self.manual_backward(loss)", 1),
        ("return model  # kept for backward compatibility", 0),
        ("'''The forward and backward passes are elsewhere.'''", 0),
        ("model.register_full_backward_hook(hook)", 0),
        ("model.forward_backward(loss)", 0),
    ],
)
def test_what_goes_backward_is_run(body: str, count: int) -> None:
    """Prose does not go backward, and a method is run where it stands."""
    module = Module.read("m", "m.py", _FUNCTION.format(body).encode(), whole=True)
    assert len(roots.runs(module, MemoryProject({}))) == count
