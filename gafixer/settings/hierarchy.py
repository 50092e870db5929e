"""Which settings hold for which file: those of the nearest configuration file, and what the command line says."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer.settings import sources
from gafixer.settings.model import Layer, Settings, resolve

if TYPE_CHECKING:
    from gafixer.files import Glob

__all__ = ["Hierarchy"]


class Hierarchy:
    """Settings file by file; picklable, with all that was looked up.

    `typed` are the layers of the command line, the strongest last. `config` is a file that holds for every file;
    `isolated` says that no file is read. Where no folder around a file is configured, the working directory's
    configuration holds.
    """

    def __init__(self, *typed: Layer, config: Path | None = None, isolated: bool = False) -> None:
        self._typed = typed
        self._isolated = isolated
        self._given = config
        self._files: dict[Path, Path | None] = {}
        self._made: dict[Path | None, Settings] = {}
        self._folders: dict[str, Settings] = {}

    def of(self, path: str) -> Settings:
        """The settings of a file, rules that are off in files like it left out.

        Raises:
            SettingsError: a configuration file can't be read, or says something that can't be meant.
        """
        folder, name = os.path.split(path)
        settings = self.of_folder(folder)
        off: frozenset[str] = frozenset()
        for entry in settings.per_file:
            if _matches(entry.glob, _absolute(path), name):
                off |= entry.codes
        return settings if settings.selected.isdisjoint(off) else _without(settings, off)

    def of_folder(self, folder: str) -> Settings:
        """The settings of what lies in a folder.

        Raises:
            SettingsError: a configuration file can't be read, or says something that can't be meant.
        """
        if folder not in self._folders:
            config = self.config(folder)
            if config not in self._made:
                read = sources.load(config) if config is not None else ()
                self._made[config] = resolve(*read, *self._typed)
            self._folders[folder] = self._made[config]
        return self._folders[folder]

    def config(self, folder: str) -> Path | None:
        """The configuration file that holds in a folder.

        Raises:
            SettingsError: a file that could be it can't be read.
        """
        if self._isolated or self._given is not None:
            return self._given
        return self._nearest(Path(_absolute(folder))) or self._nearest(Path.cwd())

    def _nearest(self, folder: Path) -> Path | None:
        """The nearest from `folder` (absolute) upwards."""
        if folder not in self._files:
            own, parent = sources.configures(folder), folder.parent
            self._files[folder] = own or (self._nearest(parent) if parent != folder else None)
        return self._files[folder]


def _absolute(path: str) -> str:
    """Without links resolved: a file is configured by the folders that it was found in."""
    return os.path.normpath(Path.cwd() / path)


@functools.lru_cache(maxsize=512)
def _without(settings: Settings, off: frozenset[str]) -> Settings:
    return dataclasses.replace(settings, selected=settings.selected - off)


@functools.lru_cache(maxsize=512)
def _expression(glob: Glob) -> re.Pattern[str]:
    return re.compile(glob.expression())


def _matches(glob: Glob, path: str, name: str) -> bool:
    return _expression(glob).match(path if glob.is_path else name) is not None
