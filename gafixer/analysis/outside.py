"""The number of steps outside the code: configuration files, launch commands, environment variables, other scripts."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer.analysis.site import Evidence
from gafixer.analysis.values import Spot
from gafixer.data.settings import EXTENSIONS, KEYS, NAMES, SKIPPED

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Setting", "read", "settings"]

#: Files that are looked into, bytes of one, and folders below the root.
_MOST_FILES = 1500
_MOST_BYTES = 200_000
_DEEPEST = 5

_KEY = "|".join(sorted(KEYS, key=len, reverse=True))
#: `key: 4`, `key = 4`, `"key": 4`, `--key 4`, `--key=4`, and two strings of a list.
_WRITTEN = re.compile(rf"(?P<key>{_KEY})[\"']?(?:[ \t]*[:=][ \t]*|[ \t]+|,[ \t]*)[\"']?(?P<value>\d+)\b(?![.\w])")


@dataclass(frozen=True, slots=True)
class Setting:
    """A number of steps that a file gives: `key` is the name that the framework knows it by."""

    key: str
    value: int
    where: Evidence


def settings(root: Path) -> tuple[Setting, ...]:
    """What the files of a project say, those nearest to its root first."""
    found: list[Setting] = []
    for count, path in enumerate(_files(root)):
        if count >= _MOST_FILES:
            break
        try:
            if path.stat().st_size <= _MOST_BYTES:
                found += read(path.read_bytes().decode("utf-8", errors="replace"), _shown(path))
        except OSError:
            continue
    return tuple(found)


def read(text: str, shown: str) -> Iterator[Setting]:
    """The settings in the text of a file; `shown` is the path that their places carry."""
    for match in _WRITTEN.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        before = text[start : match.start()]
        if before.lstrip().startswith(("#", "//")):
            continue
        row = text.count("\n", 0, start) + 1
        column = len(before.encode())
        spot = Spot(shown, row, column, row, column + len(match[0].encode()))
        yield Setting(
            KEYS[match["key"]], int(match["value"]), Evidence(spot, f"{match['key']} is {match['value']} here")
        )


def _files(root: Path) -> Iterator[Path]:
    """Configuration, scripts and code, level by level."""
    folders = [root]
    for _ in range(_DEEPEST):
        below: list[Path] = []
        for folder in folders:
            try:
                with os.scandir(folder) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                if entry.is_symlink():
                    continue
                if entry.is_dir():
                    if entry.name not in SKIPPED and not entry.name.startswith("."):
                        below.append(Path(entry.path))
                elif entry.name in NAMES or entry.name.endswith(EXTENSIONS):
                    yield Path(entry.path)
        folders = below


def _shown(path: Path) -> str:
    try:
        return path.absolute().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()
