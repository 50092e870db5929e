"""The wide matrix: `gafixer verify` in several releases of Transformers.

    python -m tests.matrix [--sample 100] [--no-patch] [--folder DIR] [VERSION ...]

Each release gets a virtual environment of its own under --folder, which sees this one's torch and accelerate; pip makes
it on first use. `VERSION=PATHS` names a release that is already unpacked, by what its PYTHONPATH has to be.
--sample draws heads spread over the tasks, the same for a given number. Prints a line per release and the heads that
miss the bound; exit 1 when there is one. What CI runs is a sample of the installed release: `pytest`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import venv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ERAS = ("4.45.2", "4.46.3", "4.47.1", "4.52.4", "4.57.6", "5.5.3", "5.9.0", "5.24.0")
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Transformers: the interpreter that has it, and the paths to put before its own."""

    version: str
    python: str
    paths: str

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python with this release installed."""
        paths = os.pathsep.join(part for part in (self.paths, str(ROOT)) if part)
        environment = {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            [self.python, "-W", "ignore", *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=False
        )


def release(named: str, folder: Path) -> Release:
    """The release of that name, made ready where it is not given by its paths."""
    version, _, paths = named.partition("=")
    if paths:
        return Release(version, sys.executable, paths)
    home = folder / version
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, system_site_packages=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", f"transformers=={version}"], check=True)
    return Release(version, str(python), "")


def sampled(installed: Release, count: int | None) -> str:
    """A pattern for `count` heads, drawn in turn from each task; for all of them by default."""
    if count is None:
        return ""
    listing = "import json; from gafixer.parity.heads import installed_heads as heads\n"
    listing += "print(json.dumps([(head.task.value, head.name) for head in heads()]))"
    groups: dict[str, list[str]] = defaultdict(list)
    for task, name in json.loads(installed.run("-c", listing).stdout):
        groups[task].append(name)
    for group in groups.values():
        random.Random(7).shuffle(group)
    drawn: list[str] = []
    while len(drawn) < count and any(groups.values()):
        drawn += [group.pop() for group in groups.values() if group]
    return f"^({'|'.join(drawn[:count])})$"


def measured(installed: Release, pattern: str, patch: bool, jobs: int) -> dict[str, Any]:
    """What verify tells of the release."""
    arguments = ["-m", "gafixer", "verify", "--head", pattern, "--output-format", "json", "--jobs", str(jobs)]
    run = installed.run(*arguments, *([] if patch else ["--no-patch"]))
    if run.returncode not in (0, 1):
        raise SystemExit(f"{installed.version}: verify ended with {run.returncode}")
    told: dict[str, Any] = json.loads(run.stdout)
    found = told["releases"]["transformers"]
    if found != installed.version:
        raise SystemExit(f"{installed.version}: transformers {found} was imported instead")
    return told


def _wrong(head: dict[str, Any]) -> list[str]:
    """The variants of a head that run but are not right."""
    names = []
    for variant in head["variants"]:
        outcome = variant["after"] or variant["before"]
        if not variant["ok"] and outcome.get("trouble") != "not built" and outcome.get("verdict") != "no gradient":
            names.append(variant["name"])
    return names


def main() -> int:
    """Run the matrix."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", default=list(ERAS), metavar="VERSION[=PATHS]")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--no-patch", action="store_true")
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-matrix")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    missed = False
    for named in options.releases:
        installed = release(named, options.folder)
        told = measured(installed, sampled(installed, options.sample), not options.no_patch, options.jobs)
        keys = ("heads", "built", "right_before", *([] if options.no_patch else ["right_after"]))
        totals = {key: sum(task[key] for task in told["tasks"]) for key in keys}
        print(installed.version, *(f"{key} {value}" for key, value in totals.items()), flush=True)
        for head in told["heads"]:
            if wrong := _wrong(head):
                missed = True
                print(f"  {head['name']}: {', '.join(wrong)}", flush=True)
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
