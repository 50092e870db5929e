"""Parity on a bare machine with a GPU: heads in float32 and bfloat16, and the curves, within a few minutes.

    PYTHONPATH=. python tests/gpu/measure.py --out FOLDER [--cpu] [--heads 80] [--minutes 5]

Needs torch, transformers and accelerate, nothing else of gafixer's requirements, and no network. Writes
FOLDER/DTYPE.json and FOLDER/DTYPE.html. Exit code: 0 every head that was built meets the bound with the patch, 1 one
misses it, 2 no GPU (and no --cpu), 3 nothing was built or the time was up before all had run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.parity.heads import Head
    from gafixer.parity.runner import HeadReport

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # workers are forked: this process must not open the GPU

_DTYPES = ("float32", "bfloat16")
_CURVES_SHARE = 0.25  # of the time, kept for the curves


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cpu", action="store_true", help="a dry run without a GPU")
    parser.add_argument("--heads", type=int, default=80)
    parser.add_argument("--minutes", type=float, default=5.0, help="for everything; what has not run by then is said")
    parser.add_argument("--jobs", type=int, default=max(1, min(8, (os.cpu_count() or 2) // 2)))
    return parser.parse_args()


def spread(heads: Sequence[Head], count: int) -> list[Head]:
    """That many heads, spread evenly over the tasks and the alphabet: the same ones every time."""
    by_task: dict[str, list[Head]] = {}
    for head in heads:
        by_task.setdefault(head.task.value, []).append(head)
    chosen: list[Head] = []
    for round_ in range(len(heads)):
        for group in by_task.values():
            if group and len(chosen) < count:
                # Steps of a golden section visit a group evenly, whatever its size.
                chosen.append(group.pop(int(len(group) * (0.618 * (round_ + 1) % 1))))
    return chosen[:count]


def main() -> int:
    """Measure, write, tell."""
    asked = arguments()
    began = time.monotonic()
    import torch

    if not asked.cpu and not torch.cuda.is_available():
        print("SKIPPED: torch sees no GPU here; --cpu makes a dry run", file=sys.stderr)
        return 2
    from gafixer.parity import curves, session
    from gafixer.parity.heads import find_head, installed_heads

    session.quieten()
    asked.out.mkdir(parents=True, exist_ok=True)
    device = "cpu" if asked.cpu else "cuda"
    heads = spread(installed_heads(), asked.heads)
    until = began + 60 * asked.minutes * (1 - _CURVES_SHARE)
    code, found = 0, {}
    for place, dtype in enumerate(_DTYPES):
        left = (until - time.monotonic()) / (len(_DTYPES) - place)
        found[dtype] = measured(heads, dtype, device, asked.jobs, time.monotonic() + left)
        code = max(code, verdict(found[dtype], dtype, len(heads)))
    divided = session.divisions()
    for dtype, reports in found.items():
        write(asked.out, dtype, device, reports, divided, ())
    # The curves open the GPU in this very process, so they come after all that forks; without them the page is whole.
    drawn = curves.curves(find_head(curves.TRAINED), device=device)
    for dtype, reports in found.items():
        write(asked.out, dtype, device, reports, divided, drawn)
    print(f"{time.monotonic() - began:.0f} s, written to {asked.out}")
    return code


def measured(heads: Sequence[Head], dtype: str, device: str, jobs: int, until: float) -> list[HeadReport]:
    """The reports of what has run when the time is up."""
    import torch

    from gafixer.parity import session
    from gafixer.parity.measure import Setting

    request = session.Request(heads, Setting(getattr(torch, dtype), device), jobs=jobs, timeout=60, until=until)
    return session.measure(request)


def verdict(reports: Sequence[HeadReport], dtype: str, asked: int) -> int:
    """Say what came of a dtype; its exit code."""
    from gafixer.parity.verify import misses, summarise

    built = sum(s.built for s in summarise(reports, True))
    before = sum(s.right_before for s in summarise(reports, True))
    after = sum(s.right_after or 0 for s in summarise(reports, True))
    print(f"{dtype}: {asked} heads, {len(reports)} run, {built} built, right as released {before}, patched {after}")
    for report in reports:
        for pair in misses(report):
            figures = pair.decisive.figures
            why = pair.decisive.reason if figures is None else f"{figures.meaning} (error {figures.error:.1e})"
            print(f"  MISS {report.head.name}, {pair.variant}: {why}")
    if any(map(misses, reports)):
        return 1
    return 0 if built and len(reports) == asked else 3


def write(folder: Path, dtype: str, device: str, reports: Sequence[HeadReport], divided: object, drawn: object) -> None:
    """The figures as JSON and as a page."""
    import torch

    from gafixer.parity import curves, render
    from gafixer.parity.measure import Setting
    from gafixer.parity.page import page

    setting = Setting(getattr(torch, dtype), device)
    facts = render.to_json(reports, divided, setting, True)  # type: ignore[arg-type]  # handed through
    (folder / f"{dtype}.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    text = page(reports, divided, setting, True, curves=drawn, trained=curves.TRAINED)  # type: ignore[arg-type]  # the same
    (folder / f"{dtype}.html").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
