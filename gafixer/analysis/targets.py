"""What configuration says is to be made: the dotted name of a class or function under a key, and its arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from gafixer.analysis.spot import Spot
from gafixer.analysis.values import Const, Sym
from gafixer.data.dispatch import TARGET, UNSAID

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Target", "read"]

_LINE = re.compile(r"^(?P<indent> *(?:- +)?)(?P<key>[\w.\"']+)[ \t]*:(?:[ \t]+(?P<value>[^#\n]*?))?[ \t]*(?:#.*)?$")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True, slots=True)
class Target:
    """What is made of the part of a configuration under `key`.

    `partial` says that it is to be called later.
    """

    key: str
    path: str
    arguments: tuple[tuple[str, Const | Sym], ...]
    partial: bool
    spot: Spot


@dataclass(frozen=True, slots=True)
class _Line:
    row: int
    indent: int
    key: str
    value: str


def read(source: str, shown: str) -> Iterator[Target]:
    """The targets of a YAML file in block style.

    `shown` is the path that their places carry; a target at the top of a file is made of what Hydra calls the file's
    group, the folder that it is in.
    """
    if TARGET.search(source) is None:
        return
    lines = [line for row, text in enumerate(source.split("\n"), 1) if (line := _line(row, text)) is not None]
    for at, line in enumerate(lines):
        if TARGET.fullmatch(line.key) is None or "." not in line.value:
            continue
        beside = list(_beside(lines, at))
        above = next((other.key for other in reversed(lines[:at]) if other.indent < line.indent), None)
        given = tuple((other.key, _constant(other.value)) for other in beside if UNSAID.fullmatch(other.key) is None)
        partial = any(other.key == "_partial_" and _constant(other.value) == Const(True) for other in beside)
        spot = Spot(shown, line.row, line.indent, line.row, line.indent + len(line.key))
        yield Target(above or PurePath(shown).parent.name, line.value, given, partial, spot)


def _line(row: int, text: str) -> _Line | None:
    match = _LINE.match(text)
    if match is None:
        return None
    value = (match["value"] or "").strip()
    return _Line(row, len(match["indent"]), match["key"].strip("\"'"), value.strip("\"'"))


def _beside(lines: list[_Line], at: int) -> Iterator[_Line]:
    """The other keys of the same mapping that hold a value of their own."""
    for step in (-1, 1):
        other = at + step
        while 0 <= other < len(lines) and lines[other].indent >= lines[at].indent:
            if lines[other].indent == lines[at].indent and (lines[other].value or not _holds(lines, other)):
                yield lines[other]
            other += step


def _holds(lines: list[_Line], at: int) -> bool:
    """Whether a key without a value on its line holds a mapping below it."""
    return at + 1 < len(lines) and lines[at + 1].indent > lines[at].indent


def _constant(text: str) -> Const | Sym:
    if "${" in text:
        return Sym(text)
    if text.lower() in _WORDS:
        return Const(_WORDS[text.lower()])
    for kind in (int, float):
        try:
            return Const(kind(text))
        except ValueError:
            continue
    return Const(text)
