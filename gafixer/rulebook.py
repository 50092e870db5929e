"""The rules: what one is, and where they are found.

A rule is a folder of `gafixer.rules`, for example `GA101_mean_over_steps`: `check.py` defines `RULE`, `README.md` is
its page. Nothing lists them by hand: adding a folder adds a rule.
"""

from __future__ import annotations

import functools
import importlib
import importlib.resources
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gafixer.analysis.site import Site
    from gafixer.findings import Finding

__all__ = ["Rule", "load", "page"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault that gafixer knows.

    `check` looks at one site and yields findings; it is None for a rule that the engine itself raises (unreadable
    source has no sites).
    """

    code: str
    name: str
    summary: str
    check: Callable[[Site], Iterator[Finding]] | None = None


@functools.cache
def _folders() -> dict[str, str]:
    """Code -> folder name, in the order of the codes."""
    names = (entry.name for entry in importlib.resources.files("gafixer.rules").iterdir() if entry.is_dir())
    return {name.partition("_")[0]: name for name in sorted(names) if name.startswith("GA")}


@functools.cache
def load() -> tuple[Rule, ...]:
    """All rules, in the order of their codes."""
    rules = []
    for folder in _folders().values():
        rule = importlib.import_module(f"gafixer.rules.{folder}.check").RULE
        assert isinstance(rule, Rule)
        rules.append(rule)
    return tuple(rules)


def page(code: str) -> str:
    """The rule's page, as Markdown.

    Raises:
        KeyError: no rule has this code.
    """
    folder = importlib.resources.files("gafixer.rules") / _folders()[code]
    return (folder / "README.md").read_text(encoding="utf-8")
