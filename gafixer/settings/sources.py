"""Configuration files and `--config key=value`: which one counts, what it says, and where it is mistaken."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gafixer.settings.keys import KEYS, MistakeError, read
from gafixer.settings.model import Layer, SettingsError
from gafixer.settings.places import row_of
from gafixer.settings.toml import TomlError, parse

__all__ = ["configures", "inline", "load"]

_OWN, _SHARED = "gafixer.toml", "pyproject.toml"


@dataclass(frozen=True, slots=True)
class _Text:
    """TOML that somebody wrote: `name` is how messages call it, `table` what is read of it, `base` its folder."""

    name: str
    text: str
    table: tuple[str, ...]
    base: str
    has_rows: bool = True

    def wrong(self, mistake: MistakeError) -> SettingsError:
        row = row_of(self.text, mistake.path, mistake.word) if self.has_rows else None
        return SettingsError(f"{self.name}{f':{row}' if row else ''}: {mistake.text}")


def configures(folder: Path) -> Path | None:
    """The file of this very folder that configures us: gafixer.toml, or pyproject.toml with a [tool.gafixer] table.

    Raises:
        SettingsError: a file that could be it can't be read.
    """
    own, shared = folder / _OWN, folder / _SHARED
    if own.is_file():
        return own
    # Reading TOML costs more than a scan of a small project: only a file that names us is parsed.
    if (
        shared.is_file()
        and b"gafixer" in _bytes(shared)
        and "gafixer" in _tool(_parse(_shown(shared), _decoded(shared)))
    ):
        return shared
    return None


def load(path: Path) -> tuple[Layer, ...]:
    """The layers that a configuration file makes, those that it extends first; patterns hold below their file's folder.

    Raises:
        SettingsError: a file can't be read, or says something that can't be meant.
    """
    return _load(path, ())


def _load(path: Path, before: tuple[Path, ...]) -> tuple[Layer, ...]:
    source = _Text(
        _shown(path), _decoded(path), () if path.name != _SHARED else ("tool", "gafixer"), str(path.absolute().parent)
    )
    values = _values(source)
    extended = values.pop("extend", None)
    if extended is None:
        return (Layer(**values),)
    parent = Path(os.path.normpath(path.parent / Path(extended).expanduser()))
    here = path.resolve()
    if parent.resolve() in (*before, here):
        raise source.wrong(MistakeError((*source.table, "extend"), f"'{extended}' extends this file again"))
    if not parent.is_file():
        raise source.wrong(MistakeError((*source.table, "extend"), f"'{extended}': no such file"))
    return (*_load(parent, (*before, here)), Layer(**values))


def inline(text: str, base: str) -> Layer:
    """The layer of `--config 'key = value'`; patterns hold below `base`.

    Raises:
        SettingsError: it is no TOML, or says something that can't be meant.
    """
    values = _values(_Text(f"--config {text.strip()!r}", text, (), base, has_rows=False))
    if "extend" in values:
        raise SettingsError("--config: 'extend' belongs in a file; name that file instead")
    return Layer(**values)


def _values(source: _Text) -> dict[str, Any]:
    table: object = _parse(source.name, source.text)
    for depth, name in enumerate(source.table, 1):
        table = table.get(name, {}) if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            shown = ".".join(source.table[:depth])
            raise source.wrong(MistakeError(source.table[:depth], f"[{shown}] must be a table"))
    assert isinstance(table, dict)
    try:
        return read(KEYS, table, source.base, source.table)
    except MistakeError as mistake:
        raise source.wrong(mistake) from mistake


def _tool(document: dict[str, Any]) -> dict[str, Any]:
    tool = document.get("tool")
    return tool if isinstance(tool, dict) else {}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{_shown(path)}: {(error.strerror or str(error)).lower()}") from error


def _decoded(path: Path) -> str:
    try:
        return _bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{_shown(path)}: not UTF-8 at byte {error.start}") from error


def _parse(name: str, text: str) -> dict[str, Any]:
    try:
        return parse(text)
    except TomlError as error:
        raise SettingsError(f"{name}{error.place}: {error}") from error


def _shown(path: Path) -> str:
    here, whole = Path.cwd(), path.absolute()
    return str(whole.relative_to(here) if whole.is_relative_to(here) else whole)
