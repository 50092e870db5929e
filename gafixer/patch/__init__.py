"""`import gafixer.patch` makes the installed Transformers accumulate gradients as one big batch.

Importing it applies every patch, unless the environment says `GAFIXER_PATCH=0`; before or after `import
transformers`, and for a `Trainer` that exists already. Neither torch nor transformers is imported by it. What was
done, and why, is logged on the logger `gafixer.patch`: what is applied at INFO, what stands down at WARNING.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from gafixer.patch.records import Patch, State, Status
from gafixer.patch.state import apply, is_applied, revert, status

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Patch", "State", "Status", "apply", "patched", "revert", "status"]


@contextlib.contextmanager
def patched(on: bool = True) -> Iterator[None]:
    """Inside, patches are on (or with `on=False` off); after, as they were before."""
    before = is_applied()
    (apply if on else revert)()
    try:
        yield
    finally:
        (apply if before else revert)()


if os.environ.get("GAFIXER_PATCH", "1") != "0":
    apply()
