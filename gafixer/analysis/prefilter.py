"""What a file must contain for anything here to be said of it: each byte is read once, most files no further."""

from __future__ import annotations

import re

__all__ = ["may_matter"]

#: Found as plain bytes first: an expression with alternatives reads six times slower.
_PARTS = (b"backward", b"num_items_in_batch")
_WORDS = re.compile(rb"backward\b|num_items_in_batch")


def may_matter(source: bytes) -> bool:
    """Whether a file can hold anything that a rule speaks about: a loss that goes backward."""
    return any(part in source for part in _PARTS) and _WORDS.search(source) is not None
