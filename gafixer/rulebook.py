"""The rules: what one is, and where they are found.

A rule is a folder of `gafixer.rules`, for example `GA101_mean_over_steps`: `check.py` defines `RULE`, `README.md` is
its page. Nothing lists them by hand: adding a folder adds a rule.
"""

from __future__ import annotations

import functools
import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gafixer.analysis.heads import HeadSite
    from gafixer.analysis.overrides import OverrideSite
    from gafixer.analysis.requirements import Target
    from gafixer.analysis.site import Site
    from gafixer.analysis.uses import Uses
    from gafixer.findings import Finding

__all__ = ["Rule", "catalogue", "folder", "load", "page", "root"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault that gafixer knows.

    A rule is a predicate on facts, and yields findings: `check` looks at one site, `check_head` at one head,
    `check_override` at one override of a Trainer's part and `check_uses` at what a file uses of the library, these with
    the releases of Transformers that are meant. `flagged_heads` says that `check_head` speaks of heads with a switch
    only. A rule that the engine itself raises has none of them (unreadable source has no sites).
    """

    code: str
    name: str
    summary: str
    check: Callable[[Site], Iterator[Finding]] | None = None
    check_head: Callable[[HeadSite, Target], Iterator[Finding]] | None = None
    check_override: Callable[[OverrideSite, Target], Iterator[Finding]] | None = None
    check_uses: Callable[[Uses, Target], Iterator[Finding]] | None = None
    flagged_heads: bool = False


@functools.cache
def root() -> Path:
    """The folder of the rules."""
    return Path(importlib.import_module("gafixer.rules").__path__[0])


@functools.cache
def _folders() -> dict[str, str]:
    """Code -> folder name, in the order of the codes."""
    with os.scandir(root()) as listing:
        names = sorted(entry.name for entry in listing if entry.name.startswith("GA") and entry.is_dir())
    return {name.partition("_")[0]: name for name in names}


def catalogue() -> dict[str, str]:
    """Code -> name of every rule, in the order of the codes, without importing one."""
    return {code: folder.partition("_")[2].replace("_", "-") for code, folder in _folders().items()}


def folder(code: str) -> str:
    """The name of the rule's folder.

    Raises:
        KeyError: no rule has this code.
    """
    return _folders()[code]


@functools.cache
def load() -> tuple[Rule, ...]:
    """All rules, in the order of their codes."""
    rules = []
    for name in _folders().values():
        rule = importlib.import_module(f"gafixer.rules.{name}.check").RULE
        assert isinstance(rule, Rule)
        rules.append(rule)
    return tuple(rules)


def page(code: str) -> str:
    """The rule's page, as Markdown.

    Raises:
        KeyError: no rule has this code.
    """
    return (root() / folder(code) / "README.md").read_text(encoding="utf-8")
