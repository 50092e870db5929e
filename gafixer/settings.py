"""What a user can set, from `[tool.gafixer]` in pyproject.toml or from gafixer.toml, and from the command line."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gafixer import rulebook
from gafixer.files import DEFAULT_EXCLUDE, Glob
from gafixer.findings import Severity
from gafixer.selection import UnknownRuleError, codes_of, narrow, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Layer", "Settings", "SettingsError", "find_config", "load", "resolve"]


class SettingsError(Exception):
    """A setting that can't be meant. The text is one line: where, what, and the nearest right word."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a scan. `selected` holds rule codes, after `select`, `extend-select` and `ignore`.

    `import_helpers`: fixes call `gafixer.accumulate` instead of adding a private function to the file.
    """

    selected: frozenset[str]
    min_severity: Severity = Severity.WARNING
    exclude: tuple[Glob, ...] = tuple(map(Glob, DEFAULT_EXCLUDE))
    #: A version of Transformers, or a range of them; None: what the project requires.
    target_transformers: str | None = None
    import_helpers: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """What one place says: a configuration file, or the command line. None: it is silent."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    min_severity: Severity | None = None
    exclude: tuple[Glob, ...] | None = None
    extend_exclude: tuple[Glob, ...] = ()
    target_transformers: str | None = None


def resolve(*layers: Layer) -> Settings:
    """The settings that the layers make, the last one the strongest.

    A layer that selects begins anew; one that does not changes what the layers before it selected.

    Raises:
        SettingsError: a selector means no rule.
    """
    catalogue = rulebook.catalogue()
    selected = frozenset(catalogue)
    severity = Severity.WARNING
    exclude = tuple(map(Glob, DEFAULT_EXCLUDE))
    extended: tuple[Glob, ...] = ()
    target: str | None = None
    for layer in layers:
        base = selected if layer.select is None else frozenset()
        try:
            selected = narrow(base, (*(layer.select or ()), *layer.extend_select), layer.ignore, catalogue)
        except UnknownRuleError as error:
            raise SettingsError(str(error)) from error
        severity = layer.min_severity or severity
        exclude = exclude if layer.exclude is None else layer.exclude
        extended += layer.extend_exclude
        target = layer.target_transformers or target
    return Settings(selected, severity, exclude + extended, target)


def find_config(directory: Path) -> Path | None:
    """The nearest gafixer.toml, or pyproject.toml with a [tool.gafixer] table, from `directory` (absolute) upwards.

    Raises:
        SettingsError: a file that could be it can't be read.
    """
    for folder in (directory, *directory.parents):
        own, shared = folder / "gafixer.toml", folder / "pyproject.toml"
        if own.is_file():
            return own
        # Reading TOML costs more than a scan of a small project: only a file that names us is parsed.
        if shared.is_file() and b"gafixer" in _bytes(shared) and "gafixer" in _tool(_parse(shared)):
            return shared
    return None


def load(path: Path) -> Layer:
    """The layer that a configuration file makes; its patterns hold below its folder.

    Raises:
        SettingsError: the file can't be read, or says something that can't be meant.
    """
    document = _parse(path)
    if path.name != "pyproject.toml":
        return _layer(_Source(path, ""), document)
    table = _tool(document).get("gafixer", {})
    source = _Source(path, "tool.gafixer")
    if not isinstance(table, dict):
        raise source.wrong("gafixer", "[tool.gafixer] must be a table")
    return _layer(source, table)


def _tool(document: dict[str, Any]) -> dict[str, Any]:
    tool = document.get("tool")
    return tool if isinstance(tool, dict) else {}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{_shown(path)}: {(error.strerror or str(error)).lower()}") from error


def _parse(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        document: dict[str, Any] = tomllib.loads(_bytes(path).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SettingsError(f"{_shown(path)}: not UTF-8 at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        where = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        place = ":{}:{}".format(*where.groups()) if where else ""
        text = str(error)[: where.start()] if where else str(error)
        raise SettingsError(f"{_shown(path)}{place}: {text}") from error
    return document


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


@dataclass(frozen=True, slots=True)
class _Source:
    """A table of a file, for naming the line of a mistake: the TOML reader keeps no places."""

    path: Path
    table: str

    def wrong(self, key: str, text: str, value: str | None = None) -> SettingsError:
        """The mistake in one line: file, line, `text`."""
        lines = _bytes(self.path).decode("utf-8").split("\n")
        row = self._row(lines, key, value, self.table) or self._row(lines, key, value, "")
        return SettingsError(f"{_shown(self.path)}{f':{row}' if row else ''}: {text}")

    def _row(self, lines: list[str], key: str, value: str | None, table: str) -> int | None:
        """The line of `key` in the table, or from there on the first that holds the quoted value."""
        inside, found = not table, None
        for row, line in enumerate(lines, 1):
            if found is None:
                if header := re.match(r"\s*\[+\s*([^\]]*?)\s*\]", line):
                    inside = not table or header[1].replace('"', "").replace(" ", "").startswith(table)
                if inside and re.search(rf"(^|[\s.{{,\[\"']){re.escape(key)}[\"']?\s*(=|\]|\.)", line):
                    found = row
            if found is not None and (value is None or re.search(rf"[\"']{re.escape(value)}[\"']", line)):
                return row
        return found


def _layer(source: _Source, table: dict[str, Any]) -> Layer:
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            where = f" in [{source.table}]" if source.table else ""
            raise source.wrong(key, f"unknown key '{key}'{where}{nearest(key, _KEYS)}")
        values[key.replace("-", "_")] = _KEYS[key](source, key, value)
    return Layer(**values)


def _strings(source: _Source, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise source.wrong(key, f"'{key}' must be a list of strings")
    return tuple(value)


def _selectors(source: _Source, key: str, value: object) -> tuple[str, ...]:
    words = _strings(source, key, value)
    for word in words:
        try:
            codes_of(word, rulebook.catalogue())
        except UnknownRuleError as error:
            raise source.wrong(key, str(error), word) from error
    return words


def _globs(source: _Source, key: str, value: object) -> tuple[Glob, ...]:
    base = str(source.path.parent)
    return tuple(Glob(word, base) for word in _strings(source, key, value))


def _severity(source: _Source, key: str, value: object) -> Severity:
    words = [severity.value for severity in Severity]
    if value not in words:
        near = nearest(value, words) if isinstance(value, str) else ""
        raise source.wrong(key, f"'{key}' must be one of {', '.join(words)}{near}")
    return Severity(value)


def _release(source: _Source, key: str, value: object) -> str:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        if isinstance(value, str):
            SpecifierSet(value if value.strip()[:1] in tuple("<>=!~") else f"=={value}")
            return value
    except InvalidSpecifier:
        pass
    raise source.wrong(key, f'\'{key}\' must be a version or a range of versions, for example "4.57" or ">=4.53,<5"')


_KEYS: dict[str, Callable[[_Source, str, object], object]] = {
    "select": _selectors,
    "ignore": _selectors,
    "extend-select": _selectors,
    "min-severity": _severity,
    "exclude": _globs,
    "extend-exclude": _globs,
    "target-transformers": _release,
}
