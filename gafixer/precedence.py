"""Which finding of a site makes another one of it superfluous: one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from gafixer.findings import Finding

__all__ = ["HIDES", "asked", "settle"]

#: code -> codes that say nothing more once it is said of the same site. A quieter finding hides no louder one.
HIDES: dict[str, frozenset[str]] = {
    "GA107": frozenset({"GA101", "GA102", "GA104", "GA105"}),
    "GA208": frozenset({"GA101", "GA102", "GA104", "GA105", "GA207", "GA201", "GA202", "GA206"}),
    "GA207": frozenset({"GA101", "GA102"}),
    "GA103": frozenset({"GA101", "GA102", "GA105", "GA501"}),
    "GA203": frozenset({"GA101", "GA104", "GA102", "GA201", "GA202", "GA206"}),
    "GA101": frozenset({"GA102", "GA104", "GA501"}),
    "GA106": frozenset({"GA101", "GA104"}),
    "GA105": frozenset({"GA104", "GA101"}),
    "GA102": frozenset({"GA101"}),
    "GA401": frozenset({"GA402"}),
    "GA202": frozenset({"GA201"}),
}

#: These hold whatever else is said: nothing that a louder finding repairs would make them untrue.
_ALWAYS = frozenset({"GA107"})


def asked(selected: Collection[str]) -> set[str]:
    """The codes that decide what is said of those selected: these, and whatever hides one of them."""
    return {*selected, *(code for code, hidden in HIDES.items() if not hidden.isdisjoint(selected))}


def settle(findings: Iterable[Finding]) -> list[Finding]:
    """The findings of one site that remain."""
    said = list(findings)
    return [
        finding
        for place, finding in enumerate(said)
        if not any(_hides(other, finding, first=before < place) for before, other in enumerate(said))
    ]


def _hides(finding: Finding, other: Finding, *, first: bool) -> bool:
    """Whether a finding hides another; of two that would hide each other, the first does."""
    if other.code not in HIDES.get(finding.code, ()):
        return False
    if finding.code in _ALWAYS or finding.severity.rank > other.severity.rank:
        return True
    mutual = finding.code in HIDES.get(other.code, ())
    return finding.severity is other.severity and (first or not mutual)
