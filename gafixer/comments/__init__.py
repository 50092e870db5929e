"""Comments that silence findings: what they say, which of them say nothing, and adding them.

    (loss / steps).backward()  # gafixer: ignore[GA101] every microbatch has 512 tokens
    # gafixer: file-ignore[GA101, log-scale]
    (loss / steps).backward()  # noqa: GA101

The first and the last stand on the first or last line of a statement, or alone above it; the second anywhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.findings import Finding

__all__ = ["UNUSED", "judges", "settle", "speaks", "suppress"]

#: The rule about comments that silence nothing.
UNUSED = "GA901"
_OF_OURS = re.compile(rb"(?:noqa|NOQA)\b[^\n]*\b[Gg][Aa]\d")


def speaks(source: bytes) -> bool:
    """Whether a program may hold such a comment."""
    return b"gafixer:" in source or b"noqa" in source.lower()


def judges(source: bytes) -> bool:
    """Whether it may hold one that is ours to judge, no other linter's. Every file is asked: plain searches first."""
    if b"gafixer:" in source:
        return True
    return (b"noqa" in source or b"NOQA" in source) and _OF_OURS.search(source) is not None


def suppress(source: bytes, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings of a program that no comment silences."""
    if not findings or not speaks(source):
        return tuple(findings)
    from gafixer.analysis.source import UnreadableError, decode
    from gafixer.comments.directives import directives

    try:
        found = list(directives(decode(source)))
    except UnreadableError:
        return tuple(findings)
    return tuple(finding for finding in findings if not any(said.silences(finding) for said in found))


def settle(source: bytes, path: str, findings: Sequence[Finding], selected: frozenset[str]) -> tuple[Finding, ...]:
    """The findings of a program that no comment silences, and those about comments that silence nothing.

    `findings` are all of it, whatever their severity; `selected` the rules that were looked for.
    """
    kept = suppress(source, findings)
    if UNUSED not in selected or not judges(source) or any(finding.code == "GA900" for finding in findings):
        return kept
    from gafixer.analysis.source import decode
    from gafixer.comments.unused import unused

    idle = unused(decode(source), path, findings, selected)
    return tuple(sorted((*kept, *idle), key=lambda finding: finding.order))
