"""Files on disk get new content: each is the old one or the new one whatever happens, several change all or none."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # Windows, where a file that is open can't be removed
    fcntl = None  # type: ignore[assignment]  # a module elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["put", "write", "write_all"]

#: A file of ours that is not yet whole. Nobody calls one of their own so, and it may be removed.
_PREFIX, _SUFFIX = ".gafixer-write-", ".tmp"
_UNFINISHED = re.compile(rf"{re.escape(_PREFIX)}[a-z0-9_]{{8}}{re.escape(_SUFFIX)}")


def write(path: str, content: bytes) -> None:
    """Put new content in a file's place at once; its mode stays, links to it stay links.

    Raises:
        OSError: it is read-only, or can't be written.
    """
    write_all({path: content})


def put(path: Path, content: bytes) -> None:
    """Put a file of our own in its place at once, whether there was one or not; what is a link there is no more.

    Raises:
        OSError: it can't be written.
    """
    _sweep(path.parent)
    descriptor, name = _temporary(path.parent)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(content)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


def write_all(contents: Mapping[str, bytes]) -> None:
    """The same for several files: all are written beside their places before the first is put in its own.

    They are put there in order; where one can't be, those before it get their old content again. A run that is killed
    in between leaves the first ones new, so what the others rely on comes first.

    Raises:
        OSError: one of them, its `filename`, is read-only, or can't be written.
    """
    for folder in {Path(os.path.realpath(path)).parent for path in contents}:
        _sweep(folder)
    old: dict[Path, bytes] = {}
    with contextlib.ExitStack() as made:
        ready = [(path, *made.enter_context(_beside(path, content))) for path, content in contents.items()]
        try:
            for path, target, new in ready:
                with _named(path):
                    before = target.read_bytes()
                    new.replace(target)
                old[target] = before
        except BaseException:
            for target, content in old.items():
                with _beside(str(target), content) as (_, kept):
                    kept.replace(target)
            raise


@contextlib.contextmanager
def _beside(path: str, content: bytes) -> Iterator[tuple[Path, Path]]:
    """The file that a path means, and one beside it that may take its place; it goes unless it did."""
    with _named(path):
        target = Path(os.path.realpath(path))
        if not stat.S_IMODE(target.stat().st_mode) & 0o222 or not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, "read-only file")
        descriptor, name = _temporary(target.parent)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            with _named(path):
                handle.write(content)
                handle.flush()
                os.fsync(handle.fileno())
                shutil.copymode(target, name)
            if fcntl is not None:  # held until it is in place; elsewhere a file that is open can't be moved either
                yield target, Path(name)
        if fcntl is None:
            yield target, Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """What goes wrong is said of a path."""
    try:
        yield
    except OSError as error:
        error.filename = path
        raise


def _temporary(folder: Path) -> tuple[int, str]:
    """A new file that is held: made again where another run's sweep came between its making and its holding."""
    while True:
        descriptor, name = tempfile.mkstemp(_SUFFIX, _PREFIX, folder)
        with contextlib.suppress(BlockingIOError):
            _hold(descriptor)
            if Path(name).exists():
                return descriptor, name
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    """Remove what a run that was killed left in a folder; what another run is writing is held by it and stays."""
    left = [path for path in folder.iterdir() if _UNFINISHED.fullmatch(path.name)]
    for path in filter(Path.is_file, left):
        with contextlib.suppress(OSError), path.open("rb") as handle:
            _hold(handle.fileno())
            path.unlink()


def _hold(descriptor: int) -> None:
    """Lock a file until it is closed.

    Raises:
        OSError: somebody else holds it.
    """
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
