"""Source in, findings out. Pure: no files are read here but through the project, nothing is printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gafixer.analysis.project import Project
    from gafixer.findings import Finding
    from gafixer.settings import Settings

__all__ = ["Report", "check_source"]


@dataclass(frozen=True, slots=True)
class Report:
    """What a scan of one file says, in the order of the places."""

    findings: tuple[Finding, ...]


def check_source(source: bytes, path: str, project: Project, settings: Settings) -> Report:
    """Scan one file.

    `path` is the name that findings carry; `project` answers what the modules that it imports say.
    """
    raise NotImplementedError
