"""What git ignores, asked entry by entry while a tree is walked from the top."""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pathspec import GitIgnoreSpec

__all__ = ["NOTHING", "Ignored", "around"]


@dataclass(frozen=True, slots=True)
class _Patterns:
    """The patterns of one .gitignore, and those of them that can decide about a Python file."""

    all: GitIgnoreSpec
    python: GitIgnoreSpec

    def deciding(self, name: str) -> GitIgnoreSpec:
        """Those that can decide about a file of this name."""
        return self.python if name.endswith(".py") else self.all


@dataclass(frozen=True, slots=True)
class Ignored:
    """The .gitignore files that hold for one folder, outermost first, each with the folder's path below it."""

    files: tuple[tuple[_Patterns, str], ...] = ()

    def folder(self, name: str) -> bool:
        """Whether git ignores the folder of this name."""
        for patterns, prefix in reversed(self.files):
            verdict = patterns.all.check_file(f"{prefix}{name}/").include
            if verdict is not None:
                return verdict
        return False

    def file(self, name: str) -> bool:
        """Whether git ignores the file of this name, given that it ignores none of the folders above."""
        for patterns, prefix in reversed(self.files):
            verdict = patterns.deciding(name).check_file(prefix + name).include
            if verdict is not None:
                return verdict
        return False

    def below(self, name: str) -> Ignored:
        """The same files, for the folder of this name."""
        if not self.files:
            return self
        return Ignored(tuple((patterns, f"{prefix}{name}/") for patterns, prefix in self.files))

    def read(self, folder: str, names: Iterable[str], read: Callable[[str], bytes]) -> Ignored:
        """What holds once the ignore files of a folder with these entries are read. A repository begins afresh."""
        ignored = self
        if ".git" in names:
            ignored = NOTHING._with(f"{folder}/.git/info/exclude", read)
        if ".gitignore" in names:
            ignored = ignored._with(f"{folder}/.gitignore", read)
        return ignored

    def _with(self, path: str, read: Callable[[str], bytes]) -> Ignored:
        try:
            patterns = _patterns(read(path).decode("utf-8", "surrogateescape"))
        except OSError:  # not there, or not ours to read: git would ignore nothing either
            return self
        return self if patterns is None else Ignored((*self.files, (patterns, "")))


NOTHING = Ignored()


def around(folder: str, read: Callable[[str], bytes]) -> Ignored:
    """What the repository around a folder ignores in it.

    Nothing without a repository, and nothing when the folder itself is ignored: it was named, so it is meant.
    """
    parents = []
    here = os.path.realpath(folder)
    while not os.path.lexists(f"{here}/.git"):
        parent, name = os.path.split(here)
        if parent == here:
            return NOTHING
        parents.append((parent, name))
        here = parent
    ignored = NOTHING
    for parent, name in reversed(parents):
        names = [entry for entry in (".git", ".gitignore") if os.path.lexists(f"{parent}/{entry}")]
        ignored = ignored.read(parent, names, read)
        if ignored.folder(name):
            return NOTHING
        ignored = ignored.below(name)
    return ignored


def _patterns(text: str) -> _Patterns | None:
    """The patterns of an ignore file; None without any. Lines that make no pattern are skipped, as git does."""
    lines = [line for line in re.split(r"\r?\n", text) if line.strip() and not line.startswith("#")]
    if not lines:
        return None
    from pathspec import GitIgnoreSpec  # only repositories that ignore something pay for it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of `[[` in a pattern: it means today's meaning
        try:
            GitIgnoreSpec.from_lines(lines)
        except ValueError:
            lines = [line for line in lines if _makes_pattern(line)]
        python = [line for line in lines if _can_mean_python(line)]
        return _Patterns(GitIgnoreSpec.from_lines(lines), GitIgnoreSpec.from_lines(python))


def _makes_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _can_mean_python(line: str) -> bool:
    """Whether a pattern can match a path that ends with .py: of a usual .gitignore one in twenty can.

    Negations stay, since they also undo what a broader pattern says of the files in a folder.
    """
    if line.startswith("!") or "\\" in line:
        return True
    tail = re.split(r"[*?\]]", line.rstrip())[-1]
    return tail.endswith(".py") or (tail != line.rstrip() and ".py".endswith(tail))
