"""Mends overrides and heads for a release, and runs them under it: what tests and the matrix command share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gafixer import mending, rulebook
from gafixer.analysis.project import MemoryProject
from gafixer.findings import Applicability, Finding, Severity
from gafixer.settings import Settings
from tests.codemod.overrides import OVERRIDES
from tests.codemod.processes import told

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["FAULT", "PARITY", "STEPS", "mended", "run"]

#: Relative errors in float64; the optimizer steps of a run.
PARITY, FAULT, STEPS = 1e-6, 0.01, 2


def mended(source: str, release: str, *, unsafe: bool = True, least: Severity = Severity.WARNING) -> str:
    """The source after its fixes for a release of Transformers, those of findings below `least` left out."""

    def accept(finding: Finding, now: bytes) -> bool:
        del now
        assert finding.fix is not None
        allowed = {Applicability.SAFE, Applicability.UNSAFE} if unsafe else {Applicability.SAFE}
        return finding.fix.applicability in allowed

    settings = Settings(frozenset(rulebook.catalogue()), least, target_transformers=f"=={release}")
    made = mending.repair(source.encode(), "train.py", MemoryProject({}), settings, accept)
    return source if made is None else made.new


def run(
    sources: Mapping[str, str],
    processes: int = 1,
    python: str = sys.executable,
    paths: Sequence[str] = (),
) -> dict[str, dict[str, Any]]:
    """What `tests.codemod.trainer_run` tells of modules named as in `OVERRIDES`."""
    jobs = [{"name": n, "source": s, "reference": OVERRIDES[n].reference} for n, s in sources.items()]
    found: dict[str, dict[str, Any]] = told(["tests.codemod.trainer_run"], jobs, processes, python, paths)
    return found
