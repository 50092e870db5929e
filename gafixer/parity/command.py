"""`gafixer verify`: options in, exit code out. Torch is imported when the command runs, not for its help."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from gafixer.parity.tasks import Task
from gafixer.terminal import say, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gafixer.parity.divides import Division
    from gafixer.parity.heads import Head
    from gafixer.parity.measure import Setting
    from gafixer.parity.runner import HeadReport

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
@click.option("--timeout", type=click.FloatRange(1), default=120, show_default=True, metavar="S", help="CPU seconds for one head.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
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
        raise click.UsageError(f"verify needs {' and '.join(missing)}: pip install 'gafixer[runtime]'")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    heads = _heads(options)
    setting = _setting(options)
    _hush()
    text = options.output_format == "text"
    patch = not options.no_patch
    reports = _measure(heads, options, setting, _teller(patch) if text else lambda report: None)
    divisions = _divisions()
    from gafixer.parity import render
    from gafixer.parity import verify as found

    if text:
        write(render.closing(reports, divisions, patch))
    else:
        write(json.dumps(render.to_json(reports, divisions, setting, patch), indent=2) + "\n")
    built = sum(report.built for report in reports)
    say(f"{len(reports)} heads, {built} built")
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

    available = torch.cuda.is_available()
    if options.device == "cuda" and not available:
        raise click.UsageError("--device cuda: torch sees no GPU here")
    device = "cuda" if available and options.device != "cpu" else "cpu"
    if device == "cuda" and options.processes > 1:
        raise click.UsageError("--processes forks workers for the CPU: add --device cpu")
    return Setting(getattr(torch, options.dtype), device, options.steps, options.processes, options.compile_)


def _hush() -> None:
    """Libraries announce themselves and warn about tiny models; only figures are wanted."""
    import logging
    import warnings

    import torch
    import transformers

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)  # heads are tiny, and forked workers must not share a thread pool
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    # Imported lazily by name: paid once here, not by every worker.
    _ = transformers.Trainer
    for name in ("generation.utils", "modeling_layers", "masking_utils"):
        if importlib.util.find_spec(f"transformers.{name}"):
            importlib.import_module(f"transformers.{name}")


def _teller(patch: bool) -> Callable[[HeadReport], None]:
    from gafixer.parity import render

    write(render.header(patch))
    return lambda report: write(render.head_lines(report))


def _measure(
    heads: Sequence[Head], options: _Options, setting: Setting, tell: Callable[[HeadReport], None]
) -> list[HeadReport]:
    from gafixer.parity.progress import Watch
    from gafixer.parity.runner import run_heads
    from gafixer.parity.verify import work_with

    reports = []
    with Watch(len(heads)) as watch:
        work = work_with(setting, not options.no_patch)
        for report in run_heads(heads, work=work, jobs=options.jobs, timeout=options.timeout, started=watch.started):
            reports.append(report)
            watch.finished(report.head)
            with watch.aside():
                tell(report)
    return reports


def _divisions() -> tuple[Division, ...]:
    from gafixer.parity.divides import who_divides

    return who_divides()


if __name__ == "__main__":
    sys.exit(verify.main(standalone_mode=False))
