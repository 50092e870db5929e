"""The number of steps outside the code: configuration files, launch commands, environment variables, other scripts."""

from __future__ import annotations

import contextlib
import enum
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeVar

from gafixer import files
from gafixer.analysis.site import Evidence
from gafixer.analysis.spot import Spot
from gafixer.data.settings import EXTENSIONS, MENTIONED, NAMED, NAMES, SKIPPED
from gafixer.findings import Place, Position, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "Listing",
    "Setting",
    "Source",
    "closest",
    "listing",
    "nearest",
    "place",
    "read",
    "settings",
    "shown",
    "text",
]

Said = TypeVar("Said")

#: Files that are looked into (settings, modules), those that are listed, bytes of one, folders below the root.
_MOST_FILES = 3000
_MOST_LISTED = 20_000
_MOST_BYTES = 200_000
_DEEPEST = 9

#: `key: 4`, `key = 4`, `"key": 4`, `--key 4`, `--key=4`, and two strings of a list.
_WRITTEN = re.compile(
    rf"(?P<key>{NAMED})[\"']?(?:[ \t]*[:=][ \t]*|[ \t]+|,[ \t]*)[\"']?(?P<value>\d+)\b(?![.\w])", re.IGNORECASE
)
#: The defaults of an argument parser, and of a dataclass.
_ARGUMENT = re.compile(
    rf"add_argument\(\s*(?:[\"']-\w[\"']\s*,\s*)?[\"']--(?P<key>{NAMED})[\"'][^#]{{0,200}}?\bdefault\s*=\s*(?P<value>\d+)\b",
    re.IGNORECASE,
)
_FIELD = re.compile(
    rf"^[ \t]+(?P<key>{NAMED})[ \t]*:[ \t]*(?:Optional\[)?int\b[^=\n]*=[ \t]*(?:field\(\s*default[ \t]*=[ \t]*)?"
    r"(?P<value>\d+)\b",
    re.IGNORECASE | re.MULTILINE,
)
#: `accelerate launch` whose script is still to come, and how far back a command begins.
_LAUNCHED = re.compile(r"accelerate launch(?:(?!\.py\b)[^\n]|\\\n)*$")
_COMMAND = 600
_OWN_CONFIGURATION = re.compile(r"^[ \t]*[\"']?(?:compute_environment|distributed_type)[\"']?[ \t]*:", re.MULTILINE)


class Source(enum.Enum):
    """Who gives a number of steps."""

    FILE = "a file of settings, or a command"
    DEFAULT = "the default of an argument"
    ACCELERATE = "Accelerate's own configuration, flag or variable"


@dataclass(frozen=True, slots=True)
class Setting:
    """A number of steps that a file gives: `key` is the name that the framework, or the code, knows it by."""

    key: str
    value: int
    where: Evidence
    source: Source = Source.FILE


@dataclass(frozen=True, slots=True)
class Listing:
    """Files of a project that may say something, level by level, each with its size and time of change."""

    files: tuple[tuple[str, int, int], ...]

    @property
    def python(self) -> Iterator[str]:
        """The modules that are looked into."""
        return self.ending((".py",))

    def ending(self, extensions: tuple[str, ...]) -> Iterator[str]:
        """The files of a kind that are looked into."""
        found = itertools.islice((entry for entry in self.files if entry[0].endswith(extensions)), _MOST_FILES)
        return (path for path, size, _ in found if size <= _MOST_BYTES)


def listing(root: Path) -> Listing:
    """What a project holds, up to a few thousand files."""
    return Listing(tuple(itertools.islice(_files(root), _MOST_LISTED)))


def settings(listed: Listing) -> tuple[Setting, ...]:
    """What the files of a project say, those nearest to its root first."""
    found: list[Setting] = []
    for path, size, _ in listed.files[:_MOST_FILES]:
        if size <= _MOST_BYTES and _mentions(content := _content(path)):
            found += read(content.decode("utf-8", errors="replace"), shown(Path(path)))
    return tuple(found)


def place(spot: Spot) -> Place:
    """A spot of a file that is no module."""
    return Place(spot.path, Span(Position(spot.row, spot.column + 1), Position(spot.end_row, spot.end_column + 1)))


def nearest(found: tuple[Setting, ...], importer: str) -> tuple[Setting, ...]:
    """Of each key the settings that share most folders with a file: a checkout may hold several projects."""
    by_key: dict[str, list[Setting]] = {}
    for setting in found:
        by_key.setdefault(setting.key, []).append(setting)
    kept = {s for same in by_key.values() for s in closest(same, importer, lambda s: s.where.spot.path)}
    return tuple(s for s in found if s in kept)


def closest(found: Iterable[Said], importer: str, path: Callable[[Said], str]) -> tuple[Said, ...]:
    """Those whose file shares most folders with a file."""
    folders = PurePath(importer).parent.parts
    shared = [(_shared(folders, PurePath(path(one)).parent.parts), one) for one in found]
    most = max((count for count, _ in shared), default=0)
    return tuple(one for count, one in shared if count == most)


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def text(path: str) -> str:
    """The text of a file; nothing where it can't be read."""
    return _content(path).decode("utf-8", errors="replace")


def _content(path: str) -> bytes:
    try:
        return files.read(path)
    except OSError:
        return b""


def _mentions(content: bytes) -> bool:
    """Whether a file may give a number of steps; every file of a project is asked, so plain searches only."""
    lower = content.lower()
    return any(word in lower for word in MENTIONED)


def read(source: str, path: str) -> Iterator[Setting]:
    """The settings in a file; `path` is what their places carry."""
    found = [
        (match, _by(source, match))
        for start, end in _mentioned(source)
        for match in _WRITTEN.finditer(source, start, end)
    ]
    if path.endswith(".py"):
        fields = (match for start, _ in _mentioned(source) if (match := _FIELD.match(source, start)))
        arguments = _ARGUMENT.finditer(source) if "add_argument(" in source else ()
        found += [(match, Source.DEFAULT) for match in (*arguments, *fields)]
    for match, by in sorted(found, key=lambda pair: pair[0].start()):
        begin = match.start("key")
        start = source.rfind("\n", 0, begin) + 1
        before = source[start:begin]
        if before.lstrip().startswith(("#", "//")):
            continue
        row = source.count("\n", 0, start) + 1
        column = len(before.encode())
        told = source[begin : match.end()].partition("\n")[0]
        spot = Spot(path, row, column, row, column + len(told.encode()))
        default = " by default" if by is Source.DEFAULT else ""
        evidence = Evidence(spot, f"{match['key']} is {match['value']}{default} here")
        yield Setting(_key(match["key"]), int(match["value"]), evidence, by)


def _mentioned(source: str) -> Iterator[tuple[int, int]]:
    """Where the lines begin and end that hold such a name; what is written there ends there, too."""
    lower = source.lower()
    if len(lower) != len(source):  # a letter whose small form is two
        lower = "".join(letter.lower() if letter.isascii() else letter for letter in source)
    starts = {lower.rfind("\n", 0, at) + 1 for word in MENTIONED for at in _all(word.decode(), lower)}
    for start in sorted(starts):
        end = lower.find("\n", start)
        yield start, len(lower) if end == -1 else end


def _all(word: str, text: str) -> Iterator[int]:
    """Where a word stands in a text."""
    at = text.find(word)
    while at != -1:
        yield at
        at = text.find(word, at + 1)


def _key(written: str) -> str:
    """A name as code spells it; Accelerate's own variable means its argument."""
    return written.lower().replace("-", "_").removeprefix("accelerate_")


def _by(source: str, match: re.Match[str]) -> Source:
    """Who reads a number: Accelerate its variable, its configuration, and what its launcher gets before a script."""
    launched = _LAUNCHED.search(source[max(0, match.start() - _COMMAND) : match.start()]) is not None
    own = match["key"].startswith("ACCELERATE_") or _OWN_CONFIGURATION.search(source) is not None
    return Source.ACCELERATE if launched or own else Source.FILE


def _files(root: Path) -> Iterator[tuple[str, int, int]]:
    folders = [str(root)]
    for _ in range(_DEEPEST):
        below: list[str] = []
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
                        below.append(entry.path)
                elif entry.name in NAMES or entry.name.endswith(EXTENSIONS):
                    with contextlib.suppress(OSError):  # it vanished meanwhile
                        state = entry.stat(follow_symlinks=False)
                        yield entry.path, state.st_size, state.st_mtime_ns
        folders = below


def shown(path: Path) -> str:
    """The path as findings show it: relative to the working directory where that is inside it."""
    try:
        return path.absolute().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()
