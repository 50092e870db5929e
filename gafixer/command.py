"""What the commands do: options in, output and exit code out."""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer import files, jobs, programs, rulebook, terminal
from gafixer.options import hierarchy, neighbour, reject
from gafixer.report import Format, render, render_statistics
from gafixer.report.names import Names
from gafixer.report.text import printable
from gafixer.scan import Failure, Outcome, Scanner
from gafixer.selection import nearest
from gafixer.settings import SettingsError, show

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gafixer.findings import Finding, Place
    from gafixer.options import Options
    from gafixer.programs import Opened
    from gafixer.settings import Hierarchy

__all__ = ["explain", "scan"]

_CLEAN, _FOUND, _WRONG = 0, 1, 2


@dataclass(slots=True)
class _Result:
    """What a scan came to, filled while it runs."""

    findings: list[Finding]
    failures: list[Failure]
    opened: dict[str, Opened]
    files: int = 0
    stdin: bytes = b""

    def add(self, outcome: Outcome) -> None:
        """Take in what one file came to."""
        self.findings.extend(outcome.findings)
        if outcome.failure is not None:
            self.failures.append(outcome.failure)


def scan(options: Options) -> int:
    """Scan, print, and say how it went: 0 nothing found, 1 findings, 2 something could not be done."""
    try:
        reject(options)
        return _scan(options, hierarchy(options))
    except SettingsError as error:
        terminal.say(str(error))
        return _WRONG


def _scan(options: Options, chosen: Hierarchy) -> int:
    started = time.perf_counter()
    if options.trace is not None:
        return _trace(options.trace, chosen)
    if options.show_settings or options.show_files:
        return _show(options, chosen)
    result = _run(options, chosen)
    if options.diff or options.fixes:
        return _fix(options, chosen, result, started)
    return _report(options, chosen, result, started)


def _report(options: Options, chosen: Hierarchy, result: _Result, started: float) -> int:
    _tell(options, result.failures)
    shown = _shown(result, chosen)
    if not _print(options, shown, result):
        return _WRONG
    terminal.summary(shown, len(result.findings) - len(shown), result.files, time.perf_counter() - started)
    if result.failures:
        return _WRONG
    return _FOUND if shown and not options.exit_zero else _CLEAN


def _shown(result: _Result, chosen: Hierarchy) -> list[Finding]:
    return _once([f for f in result.findings if f.severity.rank >= chosen.of(f.place.filename).min_severity.rank])


def _tell(options: Options, failures: Iterable[Failure]) -> None:
    for failure in failures:
        terminal.say(failure.line)
        if failure.trace and (options.verbose or os.environ.get("GAFIXER_DEBUG")):
            sys.stderr.write(failure.trace)


def _fix(options: Options, chosen: Hierarchy, result: _Result, started: float) -> int:
    """Show the patch, or change the files and report what remains."""
    from gafixer import fixing

    if options.stdin:
        return _fix_stdin(options, chosen, result)
    changed, failures = fixing.repair(_shown(result, chosen), chosen, keep=options.fixes)
    result.failures += failures
    if options.diff:
        _tell(options, result.failures)
        terminal.write(fixing.patch(changed, Names(str(Path.cwd()))))
        terminal.fixed([f for c in changed for f in c.fixed], len(changed), done=False)
        return _WRONG if result.failures else _FOUND if changed and not options.exit_zero else _CLEAN
    _rescan(chosen, result, [c.path for c in changed])
    fixed = [f for c in changed for f in c.fixed]
    if options.show_fixes:
        for finding in fixed:
            where = Names(str(Path.cwd())).row(finding.place)
            terminal.say(f"fixed {where}: {finding.code} {finding.fix.message if finding.fix else ''}")
    if options.fix_only:
        _tell(options, result.failures)
        code = _WRONG if result.failures else _CLEAN
    else:
        code = _report(options, chosen, result, started)
    terminal.fixed(fixed, len(changed), done=True)
    return _FOUND if code == _CLEAN and fixed and options.exit_non_zero_on_fix else code


def _fix_stdin(options: Options, chosen: Hierarchy, result: _Result) -> int:
    """What standard input gives goes fixed to standard output."""
    from gafixer import fixing

    name = options.stdin_name
    made = fixing.change(result.stdin, name, chosen)
    if isinstance(made, Failure):
        result.failures.append(made)
        made = None
    _tell(options, result.failures)
    if options.diff:
        terminal.write(fixing.patch([made] if made else [], Names(str(Path.cwd()))))
    else:
        sys.stdout.buffer.write(made.content if made else result.stdin)
        sys.stdout.flush()
    if result.failures:
        return _WRONG
    return _FOUND if made and (options.diff or options.exit_non_zero_on_fix) and not options.exit_zero else _CLEAN


def _rescan(chosen: Hierarchy, result: _Result, paths: list[str]) -> None:
    """What is found in files that were changed."""
    changed = set(paths)
    result.findings = [f for f in result.findings if f.place.filename not in changed]
    scanner = Scanner(chosen)
    for path in paths:
        result.add(scanner.path(path))


def _once(findings: list[Finding]) -> list[Finding]:
    """In the order of the places, each once: several files may speak of one requirement, and the loudest is heard."""
    kept: dict[tuple[str, object], Finding] = {}
    for finding in sorted(findings, key=lambda f: (f.order, -f.severity.rank, f.message)):
        kept.setdefault((finding.code, finding.place), finding)
    return list(kept.values())


def _run(options: Options, chosen: Hierarchy) -> _Result:
    result = _Result([], [], {})
    if options.stdin:
        name = options.stdin_name
        source = sys.stdin.buffer.read()
        outcome = Scanner(chosen).source(source, name, named=True)
        result.files = 1
        result.stdin = source
        result.add(outcome)
        return result

    found = _files(options, chosen, result)
    result.files = len(found)
    if not found:
        terminal.say("no Python files under the given paths")
    with terminal.Progress(len(found)) as progress:
        for outcome in jobs.scan(found, chosen, options.jobs, progress.tick):
            result.add(outcome)
    scanner = Scanner(chosen)
    for path in found if options.paths else ():
        if path in options.paths:
            result.add(scanner.named(path))
    return result


def _files(options: Options, chosen: Hierarchy, result: _Result) -> list[str]:
    """The files to scan. Once they are known, so are their settings: what is wrong with one is told before the scan."""

    def unlisted(folder: str, error: OSError) -> None:
        result.failures.append(Failure(folder, files.reason(error)))

    found = list(
        files.find(
            options.paths or ["."],
            lambda folder: chosen.of_folder(folder).exclude,
            unlisted,
            force=options.force_exclude,
        )
    )
    for path in options.paths:
        chosen.of(path)
    return found


def _show(options: Options, chosen: Hierarchy) -> int:
    """List the files that would be scanned, or tell what holds for the first of them."""
    result = _Result([], [], {})
    found = [options.stdin_name] if options.stdin else sorted(_files(options, chosen, result))
    _tell(options, result.failures)
    if options.show_files:
        terminal.write("".join(f"{printable(os.path.normpath(Path.cwd() / path))}\n" for path in found))
    elif found:
        config = chosen.config(str(Path(found[0]).parent))
        said = f"# settings of {found[0]}\n# from {config if config is not None else 'no configuration file'}\n"
        terminal.write(said + show.render(chosen.of(found[0])))
    else:
        terminal.say("no Python files under the given paths")
    return _WRONG if result.failures else _CLEAN


def _print(options: Options, shown: list[Finding], result: _Result) -> bool:
    """Whether the findings could be written."""

    def text_of(place: Place) -> str | None:
        path = place.filename
        try:
            if path not in result.opened:
                source = result.stdin if options.stdin and path == options.stdin_name else files.read(path)
                result.opened[path] = programs.readable(source, path)
        except OSError:  # it vanished since it was scanned: the places are shown without their code
            return None
        return result.opened[path].text(place.cell)

    output = Format(options.output_format)
    colour = options.output_file is None and terminal.has_colour(sys.stdout)
    if options.statistics:
        text = render_statistics(output, shown, colour=colour)
    else:
        text = render(output, shown, Names(str(Path.cwd())), source=text_of, colour=colour)
    if options.output_file is None:
        terminal.write(text)
        return True
    try:
        Path(options.output_file).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        terminal.say(f"{options.output_file}: {files.reason(error)}")
        return False
    return True


def _trace(where: str, chosen: Hierarchy) -> int:
    asked = re.fullmatch(r"(?P<path>.+?)(?::cell (?P<cell>\d+))?:0*(?P<row>[1-9]\d*)", where)
    if asked is None:
        terminal.say(f"--trace takes FILE:LINE, or NOTEBOOK:cell N:LINE, not '{where}'")
        return _WRONG
    path = asked["path"]
    try:
        source = files.read(path)
    except OSError as error:
        terminal.say(f"{path}: {files.reason(error)}{neighbour(path) if isinstance(error, FileNotFoundError) else ''}")
        return _WRONG
    from gafixer import engine
    from gafixer.analysis.source import UnreadableError

    try:
        file, _ = programs.opened(source, path).sound()
        row = file.row(int(asked["cell"]) if asked["cell"] else None, int(asked["row"]))
        told = engine.trace(file.code, path, Scanner(chosen).project, row, chosen.of(path).declared, file.label)
    except UnreadableError as error:
        terminal.say(f"{path}:{error.row}:{error.column}: {error.message}")
        return _WRONG
    terminal.write("".join(f"{printable(line)}\n" for line in told.splitlines()))
    return _CLEAN


def explain(rule: str | None) -> int:
    """Print the page of a rule, given by code or name, or all pages."""
    catalogue = rulebook.catalogue()
    codes: Iterable[str] = catalogue
    if rule is not None:
        codes = [code for code, name in catalogue.items() if rule in (code, name)]
        if not codes:
            terminal.say(f"unknown rule '{rule}'{nearest(rule, [*catalogue, *catalogue.values()])}")
            return _WRONG
    terminal.markdown("\n".join(rulebook.page(code) for code in codes))
    return _CLEAN
