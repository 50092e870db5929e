"""Which files a scan reads: named files always, in folders the Python files that git and the settings don't exclude."""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pathspec import GitIgnoreSpec

__all__ = ["DEFAULT_EXCLUDE", "Glob", "NotAFileError", "find", "read", "reason", "text"]

DEFAULT_EXCLUDE = (
    ".bzr",
    ".direnv",
    ".eggs",
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
        self._names = re.compile("|".join(names)) if names else None
        self._paths = re.compile("|".join(paths)) if paths else None

    def __call__(self, folder: str, name: str) -> bool:
        if name in self._plain or (self._names and self._names.match(name)):
            return True
        return bool(self._paths and self._paths.match(os.path.abspath(os.path.join(folder, name))))


@dataclass(frozen=True, slots=True)
class _Ignored:
    """The .gitignore files that hold for one folder, outermost first, each with the folder's path below it."""

    specs: tuple[tuple[GitIgnoreSpec, str], ...] = ()

    def __call__(self, name: str) -> bool:
        """Whether git ignores this entry; the name of a folder ends with a slash."""
        for spec, prefix in reversed(self.specs):
            verdict = spec.check_file(prefix + name).include
            if verdict is not None:
                return verdict
        return False

    def below(self, name: str) -> _Ignored:
        return _Ignored(tuple((spec, f"{prefix}{name}/") for spec, prefix in self.specs)) if self.specs else self

    def with_files_of(self, folder: str, names: Iterable[str]) -> _Ignored:
        """What holds once this folder's own ignore files are read. A repository begins afresh."""
        ignored = self
        if ".git" in names:
            ignored = _NOTHING._with(os.path.join(folder, ".git", "info", "exclude"))
        if ".gitignore" in names:
            ignored = ignored._with(os.path.join(folder, ".gitignore"))
        return ignored

    def _with(self, path: str) -> _Ignored:
        spec = _spec(path)
        return self if spec is None else _Ignored((*self.specs, (spec, "")))


_NOTHING = _Ignored()


def _spec(path: str) -> GitIgnoreSpec | None:
    """The patterns of an ignore file; None without any. Lines that make no pattern are skipped."""
    try:
        text = read(path).decode("utf-8", "surrogateescape")
    except OSError:
        return None
    lines = [line for line in re.split(r"\r?\n", text) if line.strip() and not line.startswith("#")]
    if not lines:
        return None
    from pathspec import GitIgnoreSpec  # only repositories that ignore something pay for it

    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _from_parents(folder: str) -> _Ignored:
    """What the repository around a named folder ignores in it.

    Nothing without a repository, and nothing when the folder itself is ignored: it was named, so it is meant.
    """
    parents = []
    here = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(here, ".git")):
        parent, name = os.path.split(here)
        if parent == here:
            return _NOTHING
        parents.append((parent, name))
        here = parent
    ignored = _NOTHING
    for parent, name in reversed(parents):
        names = [entry for entry in (".git", ".gitignore") if os.path.lexists(os.path.join(parent, entry))]
        ignored = ignored.with_files_of(parent, names)
        if ignored(f"{name}/"):
            return _NOTHING
        ignored = ignored.below(name)
    return ignored


def find(paths: Iterable[str], exclude: Iterable[Glob], warn: Callable[[str, OSError], None]) -> Iterator[str]:
    """Files to scan: each path that is no folder, and the Python files below each that is one; each file once.

    `warn` is told of folders that can't be listed; what vanishes during the walk is passed over.
    """
    excluded = _Excluded(exclude)
    seen = set()
    for path in paths:
        for name in _walk(path, excluded, warn) if os.path.isdir(path) else [path]:
            key = os.path.abspath(name)
            if key not in seen:
                seen.add(key)
                yield name


def _walk(root: str, excluded: _Excluded, warn: Callable[[str, OSError], None]) -> Iterator[str]:
    stack = [(os.path.normpath(root), _from_parents(root))]
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
        ignored = ignored.with_files_of(folder, {entry.name for entry in entries if entry.name.startswith(".git")})
        folders = []
        for entry in entries:
            name = entry.name
            if _is_folder(entry):
                if not excluded(folder, name) and not ignored(f"{name}/"):
                    folders.append((_join(folder, name), ignored.below(name)))
            elif name.endswith(".py") and _is_file(entry) and not excluded(folder, name) and not ignored(name):
                yield _join(folder, name)
        stack.extend(reversed(folders))


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


def text(source: bytes) -> str:
    """The source as characters, for showing it: what can't be decoded becomes U+FFFD."""
    import io
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    except SyntaxError:
        encoding = "utf-8"
    return source.decode(encoding, "replace")
