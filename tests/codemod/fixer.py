"""Fixes source held in memory, as `--fix` does."""

from __future__ import annotations

from gafixer import engine, mending, rulebook
from gafixer.analysis.project import MemoryProject
from gafixer.findings import Applicability, Finding, Severity
from gafixer.settings import Settings, Strategy

__all__ = ["findings", "fix", "fix_files"]


def _settings(least: Severity, strategy: Strategy = Strategy.AUTO) -> Settings:
    return Settings(frozenset(rulebook.catalogue()), least, strategy=strategy)


def findings(source: str, *, least: Severity = Severity.WARNING, **modules: str) -> list[Finding]:
    """What is said of a file, with fixes."""
    report = engine.check_source(source.encode(), "train.py", MemoryProject(modules), _settings(least))
    return [f for f in report.findings if f.severity.rank >= least.rank]


def fix(
    source: str,
    *,
    unsafe: bool = False,
    least: Severity = Severity.WARNING,
    strategy: Strategy = Strategy.AUTO,
    **modules: str,
) -> str:
    """The source after its fixes; `modules` are other files of the project."""

    def accept(finding: Finding, now: bytes) -> bool:
        del now
        assert finding.fix is not None
        safe = finding.fix.applicability is Applicability.SAFE
        return safe or (unsafe and finding.fix.applicability is Applicability.UNSAFE)

    made = mending.repair(source.encode(), "train.py", MemoryProject(modules), _settings(least, strategy), accept)
    return source if made is None else made.new


def fix_files(sources: dict[str, str], own: str = "train", *, unsafe: bool = False) -> dict[str, str]:
    """A project after the fixes of the module `own`, which may change all files: name of a module -> source."""

    def accept(finding: Finding, now: bytes) -> bool:
        del now
        assert finding.fix is not None
        return unsafe or finding.fix.applicability is Applicability.SAFE

    project = MemoryProject(sources, editable=sources)
    made = mending.repair(sources[own].encode(), f"{own}.py", project, _settings(Severity.WARNING), accept)
    if made is None:
        return sources
    others = {other.path.removesuffix(".py").replace("/", "."): other.new for other in made.others}
    return {**sources, **others, own: made.new}
