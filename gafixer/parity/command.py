"""`gafixer verify`: options in, exit code out. Torch is imported when the command runs, not for its help."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gafixer.parity.tasks import Task
from gafixer.terminal import say, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.parity.divides import Division
    from gafixer.parity.heads import Head
    from gafixer.parity.measure import Setting
    from gafixer.parity.runner import HeadReport
    from gafixer.parity.session import Request

__all__ = ["verify"]

_TASKS = click.Choice([task.value for task in Task])


@dataclass(frozen=True, slots=True)
class _Options:
    head: str
    task: tuple[str, ...]
    no_patch: bool
    device: str
    dtype: str
    compile_: bool
    processes: int
    steps: int
    jobs: int
    timeout: float
    output_format: str
    report: Path | None
    write_table: Path | None


@click.command(epilog=f"Tasks: {', '.join(task.value for task in Task)}.")
@click.option("--head", default="", metavar="REGEX", help="Only classes whose name matches.")
@click.option("--task", multiple=True, type=_TASKS, metavar="TASK", help="Only heads of this task; may be repeated.")
@click.option("--no-patch", is_flag=True, help="Measure the installed release as it is, and judge that.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--dtype", type=click.Choice(["float64", "float32", "bfloat16"]), default="float32", show_default=True)
@click.option("--compile", "compile_", is_flag=True, help="Train under torch.compile (inductor).")
@click.option(
    "--processes", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Ranks of each step."
)
@click.option(
    "--steps", type=click.IntRange(1), default=4, show_default=True, metavar="N", help="Microbatches per rank."
)
@click.option(
    "-j", "--jobs", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Heads at a time."
)
@click.option(
    "--timeout", type=click.FloatRange(1), default=120, show_default=True, metavar="S", help="CPU seconds for one head."
)
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write a page to look at: ratios, every head, and the loss curves of one batch split five ways.",
)
@click.option(
    "--write-table",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Put what these heads do with labels and the count into FILE, as the scanner reads it.",
)
def verify(**options: object) -> int:
    """Test whether every head of the installed Transformers gets the gradient of its whole window.

    Each head is built tiny and at random, trained for one step of uneven microbatches by the real Trainer, and compared
    with the gradient of the same samples in one batch: before the patch and after.

    Exit code: 0 every head that can be built meets the bound, 1 one misses it, 2 a wrong option or nothing to test.
    """
    return _run(_Options(**options))  # type: ignore[arg-type]  # click checked them


def _run(options: _Options) -> int:
    missing = [name for name in ("torch", "transformers", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        raise click.UsageError(f"verify needs {' and '.join(missing)}: pip install {' '.join(missing)}")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # or a look for a GPU would spoil it for forked workers
    if "WORLD_SIZE" not in os.environ:  # one process, one GPU: the trainer would spread itself over all it sees
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    heads = _heads(options)
    from gafixer.parity import session
    from gafixer.parity import verify as found

    setting = _setting(options)
    session.quieten()
    patch = not options.no_patch
    request = session.Request(heads, setting, patch, options.write_table is not None, options.jobs, options.timeout)
    first = not setting.launched or os.environ.get("RANK") == "0"  # one of the launched ranks speaks for all
    reports = _measured(request, options.output_format == "text" and first)
    if first:
        _tell(reports, session.divisions(), request, options)
    built = sum(report.built for report in reports)
    if not built:
        raise click.UsageError("no head could be built, so nothing was tested")
    return int(any(found.misses(report) for report in reports))


def _heads(options: _Options) -> Sequence[Head]:
    from gafixer.parity.heads import installed_heads

    try:
        heads = installed_heads(options.head, frozenset(map(Task, options.task)) or None)
    except re.error as error:
        raise click.BadParameter(f"not a regular expression: {error}", param_hint="--head") from error
    if not heads:
        raise click.UsageError("no head of the installed transformers matches")
    return heads


def _setting(options: _Options) -> Setting:
    import torch

    from gafixer.parity.measure import Setting
    from gafixer.parity.ranks import Launch

    available = torch.cuda.is_available()
    if options.device == "cuda" and not available:
        raise click.UsageError("--device cuda: torch sees no GPU here")
    device = "cuda" if available and options.device != "cpu" else "cpu"
    launch = Launch.found()
    if launch is not None:
        if options.processes not in (1, launch.processes):
            raise click.UsageError(f"--processes {options.processes}, but {launch.processes} were launched")
        dtype = getattr(torch, options.dtype)
        return Setting(dtype, device, options.steps, launch.processes, options.compile_, launched=True)
    if device == "cuda" and options.processes > 1:
        raise click.UsageError("--processes forks workers for the CPU: add --device cpu, or start under torchrun")
    return Setting(getattr(torch, options.dtype), device, options.steps, options.processes, options.compile_)


def _measured(request: Request, text: bool) -> list[HeadReport]:
    from gafixer.parity import render, session
    from gafixer.parity.progress import Watch

    if text:
        write(render.header(request.patch))
    with Watch(len(request.heads)) as watch:

        def tell(report: HeadReport) -> None:
            watch.finished(report.head)
            if text:
                with watch.aside():
                    write(render.head_lines(report))

        return session.measure(request, started=watch.started, tell=tell)


def _tell(reports: Sequence[HeadReport], divisions: Sequence[Division], request: Request, options: _Options) -> None:
    from gafixer.parity import render

    if options.output_format == "text":
        write(render.closing(reports, divisions, request.patch))
    else:
        write(json.dumps(render.to_json(reports, divisions, request.setting, request.patch), indent=2) + "\n")
    if options.report is not None:
        _write_report(options.report, reports, divisions, request)
    if options.write_table is not None:
        _write_table(options.write_table, reports, divisions, request.setting.steps)
    say(f"{len(reports)} heads, {sum(report.built for report in reports)} built")


def _write_report(path: Path, reports: Sequence[HeadReport], divisions: Sequence[Division], request: Request) -> None:
    from gafixer.parity import curves
    from gafixer.parity.heads import find_head
    from gafixer.parity.page import page

    say("training the curves: one batch, split five ways, as released" + (" and patched" if request.patch else ""))
    head = find_head(curves.TRAINED)
    drawn = curves.curves(head, device=request.setting.device, patch=request.patch)
    text = page(reports, divisions, request.setting, request.patch, curves=drawn, trained=head.name)
    path.write_text(text, encoding="utf-8")


def _write_table(path: Path, reports: Sequence[HeadReport], divisions: Sequence[Division], steps: int) -> None:
    from gafixer.parity import table

    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else table.empty()
    path.write_text(table.render(table.updated(known, reports, divisions, steps)), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(verify.main(standalone_mode=False))
