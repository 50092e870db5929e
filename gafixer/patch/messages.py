"""What the patch says: through `logging`, each thing once."""

from __future__ import annotations

import logging

__all__ = ["logger", "once"]

logger = logging.getLogger("gafixer.patch")
_said: set[tuple[str, str]] = set()


def once(about: object, message: str, level: int = logging.WARNING) -> None:
    """Log `message` about an object's class, the first time only."""
    name = about if isinstance(about, str) else type(about).__name__
    if (name, message) not in _said:
        _said.add((name, message))
        logger.log(level, "%s: %s", name, message)
