"""Scans of code held in memory, and what the code itself says must come out: ``# GA101 error`` at the end of a row."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from gafixer import engine, rulebook
from gafixer.analysis import build
from gafixer.analysis.project import MemoryProject
from gafixer.analysis.source import Module
from gafixer.findings import Severity
from gafixer.settings import Settings

if TYPE_CHECKING:
    from gafixer.analysis.site import Site
    from gafixer.findings import Finding

__all__ = ["ALL", "Said", "expected", "loud", "said", "scan", "sites", "training", "windowed"]

ALL = Settings(frozenset(rule.code for rule in rulebook.load()))

#: Row, code, severity.
Said = tuple[int, str, str]

_MARK = re.compile(r"# (GA\d{3}) (error|warning|info)$")


def scan(source: str, **modules: str) -> tuple[Finding, ...]:
    """The findings in `source`, the file train.py of a project of these other modules."""
    project = MemoryProject({name.replace("__", "."): textwrap.dedent(text) for name, text in modules.items()})
    return engine.check_source(source.encode(), "train.py", project, ALL).findings


def sites(source: str, **modules: str) -> list[Site]:
    """The sites of `source`."""
    project = MemoryProject({name: textwrap.dedent(text) for name, text in modules.items()})
    return build.sites(Module.read("train", "train.py", source.encode(), whole=True), project)


def said(findings: tuple[Finding, ...]) -> set[Said]:
    """Findings as the marks in code spell them."""
    return {(f.place.span.start.row, f.code, f.severity.value) for f in findings}


def loud(findings: tuple[Finding, ...]) -> set[Said]:
    """What is shown by default."""
    return said(tuple(f for f in findings if f.severity is not Severity.INFO))


def expected(source: str) -> set[Said]:
    """What the marks in code say."""
    return {
        (row, found[1], found[2])
        for row, line in enumerate(source.split("\n"), 1)
        if (found := _MARK.search(line)) is not None
    }


_HEAD = """\
import functools
import torch
import torch.nn.functional as F
from torch import nn
"""

_LOOP = """
def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
{body}
        if (i + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
"""

_WINDOWS = """
def train(model, windows, optimizer, n):
    for window in windows:
        num_items = sum((y != 0).sum() for _, y in window)
        for i, (x, y) in enumerate(window):
{body}
        optimizer.step()
        optimizer.zero_grad()
"""


def training(body: str, above: str = "") -> str:
    """A training script around the body of its loop over microbatches ``x, y``, with definitions `above` it."""
    inner = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
    return _HEAD + textwrap.dedent(above) + _LOOP.format(body=inner)


def windowed(body: str, above: str = "") -> str:
    """The same around the body of a loop over one window, whose items are counted before as `num_items`."""
    inner = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 12)
    return _HEAD + textwrap.dedent(above) + _WINDOWS.format(body=inner)
