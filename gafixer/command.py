"""What the commands do: options in, output and exit code out."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer import files, jobs, programs, rulebook, terminal
from gafixer.baseline import Baseline
from gafixer.cache import place
from gafixer.ending import CLEAN, WRONG, end
from gafixer.findings import Detail
from gafixer.options import hierarchy, neighbour, reject
from gafixer.report.text import printable
from gafixer.result import Result
from gafixer.scan import Failure, Scanner
from gafixer.selection import nearest
from gafixer.settings import SettingsError, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gafixer.options import Options
    from gafixer.scan import Outcome
    from gafixer.settings import Hierarchy

__all__ = ["explain", "scan"]


def scan(options: Options) -> int:
    """Scan, print, and say how it went: 0 nothing found, 1 findings, 2 something could not be done."""
    try:
        reject(options)
        return _scan(options, hierarchy(options))
    except SettingsError as error:
        terminal.say(str(error))
        return WRONG


def _scan(options: Options, chosen: Hierarchy) -> int:
    started = time.perf_counter()
    if options.trace is not None:
        return _trace(options.trace, chosen)
    if options.show_settings or options.show_files:
        return _show(options, chosen)
    return end(_run(options, chosen), started)


def _run(options: Options, chosen: Hierarchy) -> Result:
    result = Result(options, chosen, _baseline(options))
    if options.stdin:
        name = options.stdin_name
        source = sys.stdin.buffer.read()
        outcome = Scanner(chosen, detail=options.detail).source(source, name, named=True)
        result.paths = [name]
        result.stdin = source
        result.add(outcome)
        return result

    found = _files(options, chosen, result)
    result.paths = found
    if not found:
        terminal.say("no Python files under the given paths")
    with terminal.Progress(len(found)) as progress:
        for outcome in _outcomes(found, options, chosen, progress.tick):
            result.add(outcome)
    scanner = Scanner(chosen, detail=Detail.NOTHING)
    for path in found if options.paths else ():
        if path in options.paths:
            result.add(scanner.named(path))
    return result


def _outcomes(
    paths: Sequence[str], options: Options, chosen: Hierarchy, tick: Callable[[int], None]
) -> Iterator[Outcome]:
    """What the files come to: what is known of them, and for the rest what their scan says."""
    folder = place.folder(options, chosen)
    if folder is None:
        yield from jobs.scan(paths, Scanner(chosen, paths, options.detail), options.jobs, tick)
        return
    from gafixer.cache.store import Cache

    cache = Cache(folder, chosen, paths, options.detail, only_clean=options.fixes or options.diff)
    left = []
    for path in paths:
        if (known := cache.outcome(path)) is None:
            left.append(path)
        else:
            tick(1)
            yield known
    scanner = Scanner(chosen, paths, options.detail, records=True)
    passed = set(left)
    for outcome in jobs.scan(left, scanner, options.jobs, tick):
        if outcome.record is not None:
            cache.learn(outcome.record)
        passed.discard(outcome.path or "")
        yield outcome
    cache.pass_over(passed)
    cache.save()


def _baseline(options: Options) -> Baseline | None:
    """What is known. A file that is to be updated need not be there yet.

    Raises:
        SettingsError: it can't be read, or is none.
    """
    if options.baseline is None:
        return None
    if options.update_baseline and not Path(options.baseline).exists():
        return Baseline.empty(options.baseline)
    return Baseline.read(options.baseline)


def _files(options: Options, chosen: Hierarchy, result: Result) -> list[str]:
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
    result = Result(options, chosen)
    found = [options.stdin_name] if options.stdin else sorted(_files(options, chosen, result))
    result.tell()
    if options.show_files:
        terminal.write("".join(f"{printable(os.path.normpath(Path.cwd() / path))}\n" for path in found))
    elif found:
        config = chosen.config(str(Path(found[0]).parent))
        said = f"# settings of {found[0]}\n# from {config if config is not None else 'no configuration file'}\n"
        terminal.write(said + show.render(chosen.of(found[0])))
    else:
        terminal.say("no Python files under the given paths")
    return WRONG if result.failures else CLEAN


def _trace(where: str, chosen: Hierarchy) -> int:
    asked = re.fullmatch(r"(?P<path>.+?)(?::cell (?P<cell>\d+))?:0*(?P<row>[1-9]\d*)", where)
    if asked is None:
        terminal.say(f"--trace takes FILE:LINE, or NOTEBOOK:cell N:LINE, not '{where}'")
        return WRONG
    path = asked["path"]
    try:
        source = files.read(path)
    except OSError as error:
        terminal.say(f"{path}: {files.reason(error)}{neighbour(path) if isinstance(error, FileNotFoundError) else ''}")
        return WRONG
    from gafixer import engine
    from gafixer.analysis.source import UnreadableError

    try:
        file, _ = programs.opened(source, path).sound()
        row = file.row(int(asked["cell"]) if asked["cell"] else None, int(asked["row"]))
        told = engine.trace(file.code, path, Scanner(chosen).project, row, chosen.of(path).declared, file.label)
    except UnreadableError as error:
        terminal.say(f"{path}:{error.row}:{error.column}: {error.message}")
        return WRONG
    terminal.write("".join(f"{printable(line)}\n" for line in told.splitlines()))
    return CLEAN


def explain(rule: str | None) -> int:
    """Print the page of a rule, given by code or name, or all pages."""
    catalogue = rulebook.catalogue()
    codes: Iterable[str] = catalogue
    if rule is not None:
        codes = [code for code, name in catalogue.items() if rule in (code, name)]
        if not codes:
            terminal.say(f"unknown rule '{rule}'{nearest(rule, [*catalogue, *catalogue.values()])}")
            return WRONG
    terminal.markdown("\n".join(rulebook.page(code) for code in codes))
    return CLEAN
