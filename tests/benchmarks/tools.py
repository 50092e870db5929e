"""The programs that are timed, each as it is told to do its work and nothing else."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gafixer import files
from gafixer.files import DEFAULT_EXCLUDE, Glob
from tests.benchmarks.timing import Command

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AGAINST", "found", "hooked", "mended", "ours", "parsed"]


def found(tree: str, warn: Callable[[str, OSError], None] = lambda folder, error: None) -> list[str]:
    """The files of a tree that are scanned; `warn` is told of folders that can't be listed."""
    excluded = tuple(map(Glob, DEFAULT_EXCLUDE))
    return list(files.find([tree], lambda folder: excluded, warn))


def ours(tree: str, jobs: int | None, extra: tuple[str, ...] = (), cache: str | None = None) -> Command:
    settings = ("--isolated", "--exit-zero", "--output-format", "concise")
    processes = () if jobs is None else ("--jobs", str(jobs))
    kept = ("--no-cache",) if cache is None else ("--cache-dir", cache)
    return Command("gafixer", (sys.executable, "-m", "gafixer", "scan", tree, *settings, *kept, *processes, *extra), {})


def hooked(path: str) -> Command:
    """As the hook has a changed file scanned; of what it holds now no cache can know."""
    settings = ("--isolated", "--exit-zero", "--force-exclude", "--no-cache")
    return Command("gafixer", (sys.executable, "-m", "gafixer", "scan", *settings, path), {})


def mended(path: str) -> Command:
    settings = ("--isolated", "--fix", "--unsafe-fixes", "--exit-non-zero-on-fix", "--no-cache")
    return Command("gafixer --fix", (sys.executable, "-m", "gafixer", "scan", *settings, path), {}, (1,))


def parsed(path: str) -> Command:
    code = "import sys, libcst; libcst.parse_module(open(sys.argv[1], encoding='utf-8').read())"
    return Command("libcst", (sys.executable, "-c", code, path), {})


def _program(name: str) -> str:
    """Of this environment, or of the PATH."""
    beside = Path(sys.executable).with_name(name)
    program = str(beside) if beside.exists() else shutil.which(name)
    if program is None:
        raise click.ClickException(f"{name} is not installed: pip install {name}")
    return program


def _ruff(tree: str, jobs: int | None) -> Command:
    arguments = (_program("ruff"), "check", "--select", "F", "--no-cache", "--isolated", "--exit-zero", "--quiet", tree)
    return Command("ruff", arguments, {} if jobs is None else {"RAYON_NUM_THREADS": str(jobs)})


def _flake8(tree: str, jobs: int | None) -> Command:
    arguments = (_program("flake8"), "--isolated", "--select", "F", "--exit-zero", "--jobs", str(jobs or "auto"), tree)
    return Command("flake8", arguments, {})


def _torchfix(tree: str, jobs: int | None) -> Command:
    processes = () if jobs is None else ("--jobs", str(jobs))
    return Command("torchfix", (_program("torchfix"), *processes, tree), {}, (0, 1))


def _fixit(tree: str, jobs: int | None) -> Command:
    """It has no option for the number of its processes; 4, 8 are its codes for findings and for files it can't read."""
    return Command("fixit", (_program("fixit"), "--quiet", "lint", tree), {}, (0, 1, 4, 5, 8, 12))


def _click(tree: str, jobs: int | None) -> Command:
    return Command("click", (sys.executable, "-c", "import click"), {})


AGAINST = {"ruff": _ruff, "flake8": _flake8, "torchfix": _torchfix, "fixit": _fixit, "click": _click}
