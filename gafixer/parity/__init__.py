"""Proves that a training step has the gradient of its whole window.

The window is run once as microbatches, through the step under test, and once as one batch with a plain mean: the
reference. The two gradients are compared by norm ratio, cosine and relative error.

`check` and `assert_parity` do so for a model or a training step of one's own; torch is imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gafixer.parity.figures import Figures, Verdict
    from gafixer.parity.own import ParityError, assert_parity, check

__all__ = ["Figures", "ParityError", "Verdict", "assert_parity", "check"]

_HOMES = {
    "Figures": "gafixer.parity.figures",
    "Verdict": "gafixer.parity.figures",
    "ParityError": "gafixer.parity.own",
    "assert_parity": "gafixer.parity.own",
    "check": "gafixer.parity.own",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
