"""The wide matrix of the codemod: overrides and heads, mended for releases of Transformers and trained under each.

    python -m tests.codemod.matrix [--folder DIR] [--processes 1 2] [--only NAME ...] [VERSION[=PATHS] ...]

Releases are found or made as `tests.matrix` does. Prints for each release and number of processes how many meet the
reference, and those that don't; with one process also where `evaluate` reports another loss than before. Where a
release is older than an override can be mended for, its source has to stay as it is. Exit 1 where anything misses.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from tests.codemod.overrides import OVERRIDES
from tests.codemod.trainers import PARITY, STEPS, mended, run
from tests.matrix import ROOT, Release, release

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASES = ("4.46.3", "4.57.6", "5.5.3", "5.24.0")


def _misses(told: dict[str, Any]) -> bool:
    errors = told.get("errors", ())
    return len(errors) != STEPS or max(errors) > PARITY


def _check(installed: Release, processes: int, names: list[str]) -> Iterator[str]:
    """What misses, told in a line each."""
    version = Version(installed.version)
    again = Version("5.2") <= version < Version("5.5.4")
    can = {n for n in names if version >= Version(OVERRIDES[n].first) and not (again and OVERRIDES[n].called)}
    fixed = {name: mended(OVERRIDES[name].source, installed.version) for name in names}
    for name in names:
        if (fixed[name] != OVERRIDES[name].source) != (name in can):
            yield f"{name}: {'not mended' if name in can else 'changed'}"
    paths = [path for path in installed.paths.split(os.pathsep) if path]
    after = run({name: fixed[name] for name in names if name in can}, processes, installed.python, paths)
    missing = {name: told for name, told in after.items() if _misses(told)}
    failing = {name: OVERRIDES[name].source for name, told in missing.items() if processes > 1 and "error" in told}
    if failing:
        # 4.46 gathers a count that it does not have where a batch has no `labels`.
        before = run(failing, processes, installed.python, paths)
        own = {name for name, told in before.items() if told.get("error") == missing[name]["error"]}
        missing = {name: told for name, told in missing.items() if name not in own}
        after = {name: told for name, told in after.items() if name not in own}
        said = ", ".join(sorted(own)) or "none"
        print(f"{installed.version}, {processes} processes: Trainer itself fails for {said}")
    print(
        f"{installed.version}, {processes} process(es): {len(after) - len(missing)} of {len(after)} meet the reference"
    )
    yield from (f"{name}: {told}" for name, told in missing.items())
    if processes > 1:
        return
    runnable = {name: OVERRIDES[name].source for name in after if OVERRIDES[name].runs}
    for name, told in run(runnable, 1, installed.python, paths).items():
        now, then = after[name].get("evaluated"), told.get("evaluated")
        if now is None or then is None or abs(now - then) > PARITY * then:
            yield f"{name}: evaluate reported {then}, and reports {now}"


def main() -> int:
    """Run the matrix."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", default=list(RELEASES), metavar="VERSION[=PATHS]")
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-matrix")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", choices=list(OVERRIDES), default=list(OVERRIDES), metavar="NAME")
    options = parser.parse_args()
    missed = False
    for named in options.releases:
        installed = release(named, options.folder)
        for processes in options.processes:
            for line in _check(installed, processes, options.only):
                missed = True
                print(f"  {line}", flush=True)
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
