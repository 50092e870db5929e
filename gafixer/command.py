"""What the commands do: options in, output and exit code out."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer import files, jobs, programs, rulebook, settings, terminal
from gafixer.files import Glob
from gafixer.findings import Severity
from gafixer.report import Format, render, render_statistics
from gafixer.report.names import Names
from gafixer.report.text import printable
from gafixer.scan import Failure, Outcome, Scanner
from gafixer.selection import nearest
from gafixer.settings import Layer, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gafixer.findings import Finding, Place
    from gafixer.programs import Opened
    from gafixer.settings import Settings

__all__ = ["Options", "explain", "scan"]

_CLEAN, _FOUND, _WRONG = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `gafixer scan`, as they were typed; None: not given."""

    paths: tuple[str, ...]
    select: tuple[str, ...] | None
    ignore: tuple[str, ...] | None
    extend_select: tuple[str, ...] | None
    min_severity: str | None
    output_format: str
    output_file: str | None
    statistics: bool
    exit_zero: bool
    exclude: tuple[str, ...] | None
    extend_exclude: tuple[str, ...] | None
    stdin_filename: str | None
    jobs: int | None
    isolated: bool
    trace: str | None
    verbose: bool
    fix: bool
    diff: bool
    unsafe_fixes: bool
    fix_only: bool
    show_fixes: bool
    exit_non_zero_on_fix: bool
    helpers: str

    @property
    def fixes(self) -> bool:
        """Whether files are to be changed."""
        return (self.fix or self.fix_only) and not self.diff


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
    started = time.perf_counter()
    try:
        chosen = _settings(options)
        _reject(options)
    except SettingsError as error:
        terminal.say(str(error))
        return _WRONG
    if options.trace is not None:
        return _trace(options.trace, chosen)
    result = _run(options, chosen)
    if options.diff or options.fixes:
        return _fix(options, chosen, result, started)
    return _report(options, chosen, result, started)


def _report(options: Options, chosen: Settings, result: _Result, started: float) -> int:
    _tell(options, result.failures)
    shown = _shown(result, chosen)
    if not _print(options, shown, result):
        return _WRONG
    terminal.summary(shown, len(result.findings) - len(shown), result.files, time.perf_counter() - started)
    if result.failures:
        return _WRONG
    return _FOUND if shown and not options.exit_zero else _CLEAN


def _shown(result: _Result, chosen: Settings) -> list[Finding]:
    return _once([f for f in result.findings if f.severity.rank >= chosen.min_severity.rank])


def _tell(options: Options, failures: Iterable[Failure]) -> None:
    for failure in failures:
        terminal.say(failure.line)
        if failure.trace and (options.verbose or os.environ.get("GAFIXER_DEBUG")):
            sys.stderr.write(failure.trace)


def _fix(options: Options, chosen: Settings, result: _Result, started: float) -> int:
    """Show the patch, or change the files and report what remains."""
    from gafixer import fixing

    shown, unsafe = _shown(result, chosen), options.unsafe_fixes
    if options.paths == ("-",):
        return _fix_stdin(options, chosen, result, unsafe=unsafe)
    changed, failures = fixing.repair(shown, chosen, unsafe=unsafe, keep=options.fixes)
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


def _fix_stdin(options: Options, chosen: Settings, result: _Result, *, unsafe: bool) -> int:
    """What standard input gives goes fixed to standard output."""
    from gafixer import fixing

    name = _stdin(options)
    made = fixing.change(result.stdin, name, chosen, unsafe=unsafe)
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


def _rescan(chosen: Settings, result: _Result, paths: list[str]) -> None:
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


def _settings(options: Options) -> Settings:
    here = Path.cwd()
    config = None if options.isolated else settings.find_config(here)
    typed = Layer(
        select=options.select,
        ignore=options.ignore or (),
        extend_select=options.extend_select or (),
        min_severity=Severity(options.min_severity) if options.min_severity else None,
        exclude=None if options.exclude is None else tuple(Glob(word, str(here)) for word in options.exclude),
        extend_exclude=tuple(Glob(word, str(here)) for word in options.extend_exclude or ()),
    )
    chosen = settings.resolve(*([settings.load(config)] if config else []), typed)
    return dataclasses.replace(chosen, import_helpers=options.helpers == "import")


def _reject(options: Options) -> None:
    """What can't be meant is refused before anything is read.

    Raises:
        SettingsError: standard input is mixed with files, or a path does not exist.
    """
    if "-" in options.paths and len(options.paths) > 1:
        raise SettingsError("standard input (-) can't be scanned together with files")
    if options.stdin_filename is not None and options.paths != ("-",):
        raise SettingsError("--stdin-filename needs - as the path")
    for path in options.paths:
        if path != "-" and not (path and Path(path).exists()):
            raise SettingsError(f"{path}: no such file or folder{_neighbour(path)}")


def _neighbour(path: str) -> str:
    """The nearest name beside a path that does not exist."""
    wanted = Path(path)
    try:
        return nearest(str(wanted), [str(wanted.parent / entry.name) for entry in wanted.parent.iterdir()])
    except OSError:
        return ""


def _run(options: Options, chosen: Settings) -> _Result:
    result = _Result([], [], {})
    if options.paths == ("-",):
        name = _stdin(options)
        source = sys.stdin.buffer.read()
        outcome = Scanner(chosen).source(source, name, named=True)
        result.files = 1
        result.stdin = source
        result.add(outcome)
        return result

    def unlisted(folder: str, error: OSError) -> None:
        result.failures.append(Failure(folder, files.reason(error)))

    found = list(files.find(options.paths or ["."], chosen.exclude, unlisted))
    result.files = len(found)
    if not found:
        terminal.say("no Python files under the given paths")
    with terminal.Progress(len(found)) as progress:
        for outcome in jobs.scan(found, chosen, options.jobs, progress.tick):
            result.add(outcome)
    scanner = Scanner(chosen)
    for path in dict.fromkeys(options.paths):
        if Path(path).is_file():
            result.add(scanner.named(path))
    return result


def _stdin(options: Options) -> str:
    """What standard input is called."""
    return options.stdin_filename or "-"


def _print(options: Options, shown: list[Finding], result: _Result) -> bool:
    """Whether the findings could be written."""

    def text_of(place: Place) -> str | None:
        path = place.filename
        try:
            if path not in result.opened:
                source = result.stdin if options.paths == ("-",) and path == _stdin(options) else files.read(path)
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


def _trace(where: str, chosen: Settings) -> int:
    asked = re.fullmatch(r"(?P<path>.+?)(?::cell (?P<cell>\d+))?:0*(?P<row>[1-9]\d*)", where)
    if asked is None:
        terminal.say(f"--trace takes FILE:LINE, or NOTEBOOK:cell N:LINE, not '{where}'")
        return _WRONG
    path = asked["path"]
    try:
        source = files.read(path)
    except OSError as error:
        terminal.say(f"{path}: {files.reason(error)}{_neighbour(path) if isinstance(error, FileNotFoundError) else ''}")
        return _WRONG
    from gafixer import engine
    from gafixer.analysis.source import UnreadableError

    try:
        file, _ = programs.opened(source, path).sound()
        row = file.row(int(asked["cell"]) if asked["cell"] else None, int(asked["row"]))
        told = engine.trace(file.code, path, Scanner(chosen).project, row, file.label)
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
