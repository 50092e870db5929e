"""Which files a scan reads: named ones always, in folders Python and notebooks that nothing excludes."""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import stat
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer import gitignore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["DEFAULT_EXCLUDE", "Glob", "NotAFileError", "find", "read", "reason"]

DEFAULT_EXCLUDE = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".gafixer_cache",
    ".git",
    ".git-rewrite",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pants.d",
    ".pyenv",
    ".pytest_cache",
    ".pytype",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    ".vscode",
    "__pycache__",
    "__pypackages__",
    "_build",
    "buck-out",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)


class NotAFileError(OSError):
    """The path names a pipe, a device or a socket: reading it could block forever."""


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern that excludes.

    Without a slash it is held against the name of every file and folder, with one against the path below `base`.
    """

    pattern: str
    base: str = ""

    @property
    def is_path(self) -> bool:
        """Whether the pattern speaks of a path, not of a name."""
        return "/" in self.pattern.rstrip("/")

    def expression(self) -> str:
        """The pattern as a regular expression for a name, or for an absolute path."""
        pattern = self.pattern.rstrip("/")
        if not self.is_path:
            return fnmatch.translate(pattern)
        if os.path.isabs(pattern):
            return fnmatch.translate(os.path.normpath(pattern))
        return re.escape(self.base.rstrip("/") + "/") + fnmatch.translate(os.path.normpath(pattern))


class _Excluded:
    """All patterns at once: one look at a set and at most two expressions for each entry."""

    def __init__(self, globs: Iterable[Glob]) -> None:
        plain, names, paths = set(), [], []
        for glob in globs:
            if glob.is_path:
                paths.append(glob.expression())
            elif re.search(r"[*?\[]", glob.pattern):
                names.append(glob.expression())
            else:
                plain.add(glob.pattern.rstrip("/"))
        self._plain = frozenset(plain)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of `[[` in a pattern: it means today's meaning
            self._names = re.compile("|".join(names)) if names else None
            self._paths = re.compile("|".join(paths)) if paths else None

    def __call__(self, folder: str, name: str) -> bool:
        if name in self._plain or (self._names and self._names.match(name)):
            return True
        return bool(self._paths and self._paths.match(os.path.abspath(os.path.join(folder, name))))


def find(
    paths: Iterable[str],
    exclude: Callable[[str], tuple[Glob, ...]],
    warn: Callable[[str, OSError], None],
    *,
    force: bool = False,
) -> Iterator[str]:
    """Files to scan: each path that is no folder, and Python files and notebooks below each that is one; each once.

    `exclude` gives what is passed over in a folder. `warn` is told of folders that can't be listed; what vanishes
    during the walk is passed over. With `force` a path is passed over, too, that would not be found from here.
    """
    made: dict[tuple[Glob, ...], _Excluded] = {}

    def excluded(folder: str) -> _Excluded:
        globs = exclude(folder)
        if globs not in made:
            made[globs] = _Excluded(globs)
        return made[globs]

    seen = set()
    for path in paths:
        if force and _is_excluded(path, excluded):
            continue
        for name in _walk(path, excluded, warn) if os.path.isdir(path) else [path]:
            key = os.path.abspath(name)
            if key not in seen:
                seen.add(key)
                yield name


def _is_excluded(path: str, excluded: Callable[[str], _Excluded]) -> bool:
    """Whether something excludes the path or a folder that it lies in, up to the working directory."""
    folder, name = os.path.split(os.path.relpath(path))
    while name not in {"", os.curdir, os.pardir}:
        if excluded(folder)(folder, name):
            return True
        folder, name = os.path.split(folder)
    return False


def _walk(root: str, excludes: Callable[[str], _Excluded], warn: Callable[[str, OSError], None]) -> Iterator[str]:
    stack = [(os.path.normpath(root), gitignore.around(root, read))]
    while stack:
        folder, ignored = stack.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            warn(folder, error)
            continue
        ignored = ignored.read(folder, {entry.name for entry in entries if entry.name.startswith(".git")}, read)
        excluded = excludes(folder)
        folders = []
        for entry in entries:
            name = entry.name
            if _is_folder(entry):
                if not excluded(folder, name) and not ignored.folder(name):
                    folders.append((_join(folder, name), ignored.below(name)))
            elif _is_ours(name) and _is_file(entry) and not excluded(folder, name) and not ignored.file(name):
                yield _join(folder, name)
        stack.extend(reversed(folders))


def _is_ours(name: str) -> bool:
    return name.endswith((".py", ".ipynb"))


def _join(folder: str, name: str) -> str:
    return name if folder == "." else os.path.join(folder, name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Links to folders are not followed: they lead in circles, or to files that are found at their own place."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def read(path: str) -> bytes:
    """The bytes of a regular file.

    Raises:
        NotAFileError: it is a pipe, a device or a socket.
        OSError: it can't be read.
    """
    # Opened without blocking and asked afterwards, so that a file which becomes a pipe in between can't hold us.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        state = os.fstat(descriptor)
        if stat.S_ISDIR(state.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(state.st_mode):
            raise NotAFileError(errno.EINVAL, "not a regular file")
        source = os.read(descriptor, state.st_size + 1)
        while len(source) > state.st_size and (more := os.read(descriptor, 1 << 20)):
            source += more
        return source
    finally:
        os.close(descriptor)


def reason(error: OSError) -> str:
    """Why a file can't be read, in a few words."""
    return (error.strerror or str(error)).lower()
