"""How a scan ends: findings are reported, mended, silenced, or taken down as known. Each way has its exit code."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer import files, terminal
from gafixer.findings import Detail
from gafixer.report.names import Names
from gafixer.scan import Failure, Scanner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.findings import Finding
    from gafixer.fixing import Changed
    from gafixer.result import Result

__all__ = ["CLEAN", "FOUND", "WRONG", "end"]

CLEAN, FOUND, WRONG = 0, 1, 2
#: Entries of a baseline that are named when they are stale; of more only their number is told.
_NAMED = 10


def end(result: Result, started: float) -> int:
    """Do with the findings what was asked for; the exit code. `started` is the scan's `time.perf_counter()`."""
    options = result.options
    if options.update_baseline:
        return _update(result)
    if options.add_ignore is not None:
        return _silence(result)
    if options.diff or options.fixes:
        return _fix_stdin(result) if options.stdin else _fix(result, started)
    return _report(result, started)


def _report(result: Result, started: float) -> int:
    result.tell()
    severe, compared = result.severe(), result.compared()
    shown = severe if compared is None else list(compared.new)
    if not result.print(shown):
        return WRONG
    if compared is not None:
        _tell_stale(result)
    hidden = len(result.findings) - len(severe)
    known = 0 if compared is None else compared.known
    terminal.summary(shown, hidden, known, len(result.paths), time.perf_counter() - started)
    if result.failures:
        return WRONG
    return FOUND if shown and not result.options.exit_zero else CLEAN


# -- the baseline ----------------------------------------------------------------------------------------------------


def _tell_stale(result: Result) -> None:
    """Say what the baseline knows and this scan should have found, and didn't."""
    compared, baseline = result.compared(), result.baseline
    assert compared is not None
    assert baseline is not None
    judged = baseline.judged(result.paths, lambda path: result.settings.of(path).selected)
    stale = sorted(key for key in compared.left if key in judged)
    for key in stale[:_NAMED]:
        terminal.say(f"{baseline.path}: no longer found: {key.filename}: {key.code} {key.text}")
    if stale:
        more = f"{len(stale) - _NAMED} more are no longer found; " if len(stale) > _NAMED else ""
        terminal.say(f"{baseline.path}: {more}--update-baseline takes them out")


def _update(result: Result) -> int:
    result.tell()
    assert result.baseline is not None
    judged = result.baseline.judged(result.paths, lambda path: result.settings.of(path).selected)
    if result.failures:
        terminal.say(f"{result.baseline.path}: not updated, since the scan is not whole")
        return WRONG
    updated = result.baseline.updated(result.severe(), result.text, judged)
    try:
        updated.write()
    except OSError as error:
        terminal.say(f"{updated.path}: {files.reason(error)}")
        return WRONG
    terminal.known(str(updated.path), updated.known.total(), result.baseline.known.total())
    return CLEAN


# -- changes of the files --------------------------------------------------------------------------------------------


def _fix(result: Result, started: float) -> int:
    """Show the patch, or change the files and report what remains."""
    from gafixer import fixing

    options = result.options
    scanner = Scanner(result.settings, result.paths)
    turn = result.paths if options.to is not None else ()
    made, failures = fixing.repair(
        result.shown(), scanner, result.baseline, options.paths, keep=options.fixes, turn=turn
    )
    changed = [c for c in made if c.new != c.old]
    result.failures += failures
    fixed = [f for c in changed for f in c.fixed]
    if options.diff:
        result.tell()
        terminal.write(fixing.patch(changed, Names(str(Path.cwd()))))
        terminal.fixed(fixed, len(changed), done=False)
        _tell_loops(made, done=False)
        return WRONG if result.failures else FOUND if changed and not options.exit_zero else CLEAN
    again = Scanner(result.settings, result.paths, options.told)
    result.again([c.path for c in changed], again.path)
    if options.told is not Detail.NOTHING:
        left = {f.place.filename for f in result.shown()} - {c.path for c in changed}
        result.detailed(sorted(left & set(result.paths)), again.path)
    if options.show_fixes:
        _show_fixes(fixed)
    if options.fix_only:
        result.tell()
        code = WRONG if result.failures else CLEAN
    else:
        code = _report(result, started)
    terminal.fixed(fixed, len(changed), done=True)
    if not _tell_loops(made, done=True) and code == CLEAN and not options.exit_zero:
        return FOUND  # what was asked for by name remains to be done
    return FOUND if code == CLEAN and changed and options.exit_non_zero_on_fix else code


def _tell_loops(made: Sequence[Changed], *, done: bool) -> bool:
    """Say of each loop that was to be turned into another framework's what came of it; whether all were."""
    names = Names(str(Path.cwd()))
    for changed in made:
        for loop in changed.loops:
            where = f"{names.relative(changed.path)}:{changed.file.label(loop.row)}"
            assumed = f", assuming {loop.message}" if loop.message else ""
            if loop.done:
                terminal.say(f"{where}: {'turned' if done else 'would turn'} into a loop of Accelerate{assumed}")
            else:
                terminal.say(f"{where}: no loop of Accelerate: {loop.message}")
    return all(loop.done for changed in made for loop in changed.loops)


def _show_fixes(fixed: list[Finding]) -> None:
    names = Names(str(Path.cwd()))
    for finding in fixed:
        done = finding.fix.message if finding.fix else ""
        terminal.say(f"fixed {names.row(finding.place)}: {finding.code} {done}")


def _fix_stdin(result: Result) -> int:
    """What standard input gives goes fixed to standard output."""
    from gafixer import fixing

    options = result.options
    scanner, turn = Scanner(result.settings), options.to is not None
    made = fixing.change(result.stdin, options.stdin_name, scanner, result.baseline, turn=turn)
    if isinstance(made, Failure):
        result.failures.append(made)
        made = None
    result.tell()
    all_turned = _tell_loops([made] if made else [], done=not options.diff)
    if options.diff:
        terminal.write(fixing.patch([made] if made else [], Names(str(Path.cwd()))))
    else:
        sys.stdout.buffer.write(made.content if made else result.stdin)
        sys.stdout.flush()
    if result.failures:
        return WRONG
    changed = made is not None and made.new != made.old
    told = changed and (options.diff or options.exit_non_zero_on_fix)
    undone = not options.diff and not all_turned
    return FOUND if (told or undone) and not options.exit_zero else CLEAN


def _silence(result: Result) -> int:
    """Silence what is shown by comments in the files."""
    from gafixer.comments import adding

    made = adding.add(result.shown(), result.options.add_ignore_reason)
    result.tell(made.failures)
    names = Names(str(Path.cwd()))
    for finding in made.beyond:
        terminal.say(f"{names.row(finding.place)}: {finding.code} can't be silenced by a comment")
    terminal.added(made.silenced, len(made.paths))
    return WRONG if result.failures or made.failures else CLEAN
