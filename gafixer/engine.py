"""Source in, findings out. Pure: no files are read here but through the project, nothing is printed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer import judgement
from gafixer.analysis import prefilter
from gafixer.declared import NOTHING
from gafixer.findings import Confidence, Detail, Finding, Place, Position, Severity, Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Module, UnreadableError
    from gafixer.declared import Declared
    from gafixer.settings import Settings

__all__ = ["Report", "check_source", "is_python", "trace", "unreadable", "wanted", "wanted_notebook"]


@dataclass(frozen=True, slots=True)
class Report:
    """What a scan of one file says, in the order of the places."""

    findings: tuple[Finding, ...]


def wanted(source: bytes) -> bool:
    """Whether a file is worth looking into: it may train, or it is no text at all."""
    if prefilter.may_matter(source) or b"\0" in source:
        return True
    if source.isascii() and b"coding" not in source[:400]:
        return False
    from gafixer.analysis.source import UnreadableError, decode

    try:
        decode(source)
    except UnreadableError:
        return True
    return False


def wanted_notebook(source: bytes) -> bool:
    """Whether a notebook is worth opening: what it holds may train, or it is no text at all."""
    if prefilter.may_matter_in_json(source) or b"\0" in source:
        return True
    try:
        source.decode()
    except UnicodeDecodeError:
        return True
    return False


def is_python(source: bytes) -> bool:
    """Whether Python accepts the source; asked of files that are named, which the prefilter passes over."""
    from gafixer.analysis.source import syntax_error

    return syntax_error(source) is None


def check_source(
    source: bytes, path: str, project: Project, settings: Settings, detail: Detail = Detail.EDITS
) -> Report:
    """Scan one file.

    `path` is the name that findings carry; `project` answers what the modules that it imports say. A file that does
    not decode or parse has one finding, GA900. `detail` is how much of the fixes is asked for.
    """
    from gafixer.analysis.source import Module, UnreadableError

    about = prefilter.matter(source)
    # Heads are looked at block by block: of a large file most blocks are none.
    whole = bool(about & judgement.SITES) or not about
    try:
        module = Module.read(judgement.module_name(path), path, source, whole=whole)
        found = _fixable(module, project, settings, about, detail)
        found += judgement.of_users(module, project, about, settings)
        if module.broken:
            Module.read(judgement.module_name(path), path, source, whole=True)
    except UnreadableError as error:
        return Report(unreadable(path, error, settings))
    return Report(tuple(judgement.loudest(found)))


def _fixable(
    module: Module, project: Project, settings: Settings, about: prefilter.Matter, detail: Detail
) -> list[Finding]:
    """What is said of a module's windows, heads and overrides, with fixes for what is shown."""
    said, found = judgement.said(module, project, settings, about)
    shown = [f for f in found if f.severity.rank >= settings.min_severity.rank]
    if not shown:
        return found
    if detail is Detail.NOTHING:
        module.whole()
        return found
    from gafixer import mending

    fixer = mending.fixer_of(module, project, settings, detail)
    made = {key: fix for key, (fix, _) in fixer.fixes(said, shown).items()}
    return [dataclasses.replace(f, fix=made.get((f.code, f.place))) for f in found]


def trace(
    source: bytes,
    path: str,
    project: Project,
    row: int,
    declared: Declared = NOTHING,
    label: Callable[[int], str] = str,
) -> str:
    """How the loss that goes backward at (or nearest above or below) a row was evaluated, term by term.

    `label` names a row of the file for a reader.

    Raises:
        UnreadableError: the file is no Python.
    """
    from gafixer.analysis import build
    from gafixer.analysis.source import Module
    from gafixer.report.trace import render

    module = Module.read(judgement.module_name(path), path, source, whole=True)
    sites = build.sites(module, project, declared)
    return render(min(sites, key=lambda s: abs(s.backward.spot.row - row)) if sites else None, module, row, label)


def unreadable(path: str, error: UnreadableError, settings: Settings) -> tuple[Finding, ...]:
    """The finding for a file that is no Python, if that is wanted."""
    if "GA900" not in settings.selected:
        return ()
    here = Position(error.row, error.column)
    found = Finding(
        "GA900",
        "unreadable",
        error.message,
        Severity.ERROR,
        Confidence.HIGH,
        Place(path, Span(here, dataclasses.replace(here, column=here.column + 1))),
        help="mend the file, or exclude it",
    )
    return (found,)
