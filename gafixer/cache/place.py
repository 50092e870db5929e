"""Where the cache of a scan is."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import gafixer
from gafixer import rulebook

if TYPE_CHECKING:
    from gafixer.options import Options
    from gafixer.settings import Hierarchy

__all__ = ["NAME", "folder", "key"]

#: What the folder is called that nobody named.
NAME = ".gafixer_cache"


def folder(options: Options, chosen: Hierarchy) -> Path | None:
    """The folder that the command line or a configuration file names, or that of the project; None: no cache.

    A repository that is scanned can't have us write outside of it, by links neither.
    """
    if options.no_cache or options.stdin:
        return None
    if options.cache_dir:
        return Path(options.cache_dir).absolute()
    said = chosen.of_folder("").cache_dir
    base = Path(said.base) if said is not None else _root(chosen)
    made = base / (said.path if said is not None else NAME)
    return made if made.resolve() == base.resolve() / made.relative_to(base) else None


def _root(chosen: Hierarchy) -> Path:
    """The nearest folder from here upwards that is configured, or a checkout; else the working directory."""
    here, config = Path.cwd(), chosen.config("")
    configured = None if config is None else config.absolute().parent
    around = (here, *here.parents)
    return next((f for f in around if f == configured or (f / ".git").exists()), here)


def key() -> str:
    """A name for this gafixer, this Python and this working directory."""
    from importlib.util import find_spec

    from gafixer.contents import digest

    libcst = find_spec("libcst")
    said = (
        gafixer.__version__,
        sys.version,
        str(Path.cwd()),
        _stamps(Path(gafixer.__file__).parent),
        _stamps(rulebook.root()),
        libcst and libcst.origin and os.stat(libcst.origin).st_mtime_ns,
    )
    return digest(repr(said).encode(errors="surrogateescape"))


def _stamps(folder: Path) -> list[tuple[str, int, int]]:
    """Names, sizes and times of all source and data of ours below a folder."""
    found = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in {"__pycache__", "parity", "patch"})
        for name in sorted(names):
            if name.endswith((".py", ".json")):
                state = os.stat(os.path.join(root, name))
                found.append((os.path.join(root, name), state.st_size, state.st_mtime_ns))
    return found
