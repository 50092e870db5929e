"""What a user can set, from `[tool.gafixer]` in pyproject.toml or from gafixer.toml, and from the command line."""

from __future__ import annotations

from dataclasses import dataclass

from gafixer.findings import Severity

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a scan. `selected` holds rule codes, after `select`, `extend-select` and `ignore`."""

    selected: frozenset[str]
    min_severity: Severity = Severity.WARNING
