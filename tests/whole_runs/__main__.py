"""Whole runs in several releases of Transformers: any split of a window trains the same weights.

    python -m tests.whole_runs [--updates 30] [--heads A,B] [--no-patch] [--no-ranks] [VERSION[=PATHS] ...]

30 updates of 32 samples with very uneven items, by plain SGD with momentum and the Trainer's default clipping, for one
head of each task: as 32x1, 16x2, 8x4, 4x8, and over two processes (gloo) as 16x1 and 4x4. Prints a line per head, with
the largest difference of a final weight from 32x1's in units of what is allowed (rtol 1e-4, atol 1e-5); exit 1 where
one is above 1. Releases are named as `python -m tests.matrix` names them. A sample runs in `pytest`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.matrix import ERAS, ROOT, Release, release
from tests.whole_runs.runs import HEADS

RUNS = "tests.whole_runs.runs"
TWO_RANKS = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")


def lines(installed: Release, heads: list[str], arguments: list[str], ranks: bool) -> list[dict[str, Any]]:
    """What the runs of a release say."""
    with tempfile.TemporaryDirectory() as folder:
        told = ""
        for launch in (("-m",), *((TWO_RANKS,) if ranks else ())):
            told += installed.run(*launch, RUNS, *heads, "--folder", folder, *arguments).stdout
    return [json.loads(line) for line in told.splitlines() if line.startswith("{")]


def main() -> int:
    """All releases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", default=list(ERAS), metavar="VERSION[=PATHS]")
    parser.add_argument("--heads", default=",".join(HEADS))
    parser.add_argument("--updates", default="30")
    parser.add_argument("--no-patch", action="store_true")
    parser.add_argument("--no-ranks", action="store_true", help="one process only")
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-matrix")
    options = parser.parse_args()
    heads = options.heads.split(",")
    missed = False
    for named in options.releases:
        installed = release(named, options.folder)
        arguments = ["--updates", options.updates, *(["--no-patch"] if options.no_patch else [])]
        said = lines(installed, heads, arguments, not options.no_ranks)
        for name in heads:
            runs = [line for line in said if line["head"] == name]
            errors = [line["error"] for line in runs if "error" in line]
            apart = {f"{line['ranks']}x({line['split']})": line for line in runs if "split" in line}
            wrong = any(line["excess"] > 1 for line in apart.values())
            missed |= wrong or bool(errors) or not runs
            shares = "  ".join(f"{cut} {line['excess']:.2g}" for cut, line in apart.items())
            loss = max((line["loss"] for line in apart.values()), default=float("nan"))
            word = "differs" if wrong else "error" if errors or not runs else "agrees"
            print(f"{installed.version} {name}: {word}  {shares}  loss {loss:.1g}", *errors[:1], flush=True)
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
