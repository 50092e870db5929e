"""What a scan came to, and what of it is shown."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer import files, programs, terminal
from gafixer.report import Format, render, render_statistics
from gafixer.report.names import Names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gafixer.baseline import Baseline, Compared
    from gafixer.findings import Finding, Place, Span
    from gafixer.options import Options
    from gafixer.programs import Opened
    from gafixer.scan import Failure, Outcome
    from gafixer.settings import Hierarchy

__all__ = ["Result"]


@dataclass(slots=True)
class Result:
    """What a scan came to, filled while it runs. `paths` are the files that were scanned, `stdin` what it was given."""

    options: Options
    settings: Hierarchy
    baseline: Baseline | None = None
    findings: list[Finding] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    stdin: bytes = b""
    _opened: dict[str, Opened] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        """Take in what one file came to."""
        self.findings.extend(outcome.findings)
        if outcome.failure is not None:
            self.failures.append(outcome.failure)

    def again(self, paths: Iterable[str], scan: Callable[[str], Outcome]) -> None:
        """Take in what files come to that were changed."""
        changed = list(paths)
        self.findings = [f for f in self.findings if f.place.filename not in changed]
        for path in changed:
            self._opened.pop(path, None)
            self.add(scan(path))

    def detailed(self, paths: Iterable[str], scan: Callable[[str], Outcome]) -> None:
        """Take in the fixes of what was found in files, where the scan left them out."""
        more = {(f.code, f.place): f for path in paths for f in scan(path).findings}
        self.findings = [more.get((f.code, f.place), f) if f.fix is None else f for f in self.findings]

    def severe(self) -> list[Finding]:
        """The findings that are severe enough to be shown, in the order of their places."""
        settings = self.settings
        return _once([f for f in self.findings if f.severity.rank >= settings.of(f.place.filename).min_severity.rank])

    def compared(self) -> Compared | None:
        """These, held against the baseline, if there is one."""
        return None if self.baseline is None else self.baseline.compare(self.severe(), self.text)

    def shown(self) -> list[Finding]:
        """The findings to report: severe enough, and not known."""
        compared = self.compared()
        return self.severe() if compared is None else list(compared.new)

    def text(self, place: Place) -> str | None:
        """The text that a place is in; None where it vanished since it was scanned."""
        path = place.filename
        try:
            if path not in self._opened:
                given = self.options.stdin and path == self.options.stdin_name
                self._opened[path] = programs.readable(self.stdin if given else files.read(path), path)
        except OSError:
            return None
        return self._opened[path].text(place.cell)

    def tell(self, more: Iterable[Failure] = ()) -> None:
        """Say what could not be done."""
        for failure in (*self.failures, *more):
            terminal.say(failure.line)
            if failure.trace and (self.options.verbose or os.environ.get("GAFIXER_DEBUG")):
                sys.stderr.write(failure.trace)

    def print(self, findings: list[Finding]) -> bool:
        """Report findings; whether they could be written."""
        options = self.options
        output = Format(options.output_format)
        colour = options.output_file is None and terminal.has_colour(sys.stdout)
        if options.statistics:
            text = render_statistics(output, findings, colour=colour)
        else:
            text = render(output, findings, Names(str(Path.cwd())), source=self.text, colour=colour)
        if options.output_file is None:
            terminal.write(text)
            return True
        try:
            Path(options.output_file).write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            terminal.say(f"{options.output_file}: {files.reason(error)}")
            return False
        return True


def _once(findings: list[Finding]) -> list[Finding]:
    """In the order of the places, each once: several files may speak of one requirement, and the loudest is heard.

    Of equally loud ones it is the one that points at the first file, in whichever order they were scanned.
    """
    kept: dict[tuple[str, object], Finding] = {}
    for finding in sorted(findings, key=lambda f: (f.order, -f.severity.rank, f.message, _pointed_at(f))):
        kept.setdefault((finding.code, finding.place), finding)
    return list(kept.values())


def _pointed_at(finding: Finding) -> list[tuple[str, Span]]:
    return [(related.place.filename, related.place.span) for related in finding.related]
