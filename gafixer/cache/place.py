"""Where the cache of a scan is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gafixer.options import Options
    from gafixer.settings import Hierarchy

__all__ = ["NAME", "folder"]

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
