"""Every key of `[tool.gafixer]`: what it takes, how it is read, how the JSON schema describes it. The one table."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gafixer import rulebook
from gafixer.declared import LossReduction, OwnLoss, is_name
from gafixer.files import Glob
from gafixer.findings import Severity
from gafixer.selection import UnknownRuleError, codes_of, nearest
from gafixer.settings.model import Below, Helpers, Strategy

if TYPE_CHECKING:
    import enum
    from collections.abc import Callable, Mapping

__all__ = ["KEYS", "LOSS_KEYS", "Key", "MistakeError", "read"]


class MistakeError(Exception):
    """What is wrong with a value: where below the table, which word, and a line of text without the place."""

    def __init__(self, path: tuple[str, ...], text: str, word: str | None = None) -> None:
        super().__init__(text)
        self.path = path
        self.text = text
        self.word = word


@dataclass(frozen=True, slots=True)
class Key:
    """A key. `read` takes its path, its value and the folder that patterns hold below, and gives what it means.

    `schema` is the JSON schema of the value, without the description.
    """

    name: str
    does: str
    read: Callable[[tuple[str, ...], object, str], object]
    schema: Mapping[str, Any]


def read(keys: Mapping[str, Key], table: Mapping[str, object], base: str, at: tuple[str, ...] = ()) -> dict[str, Any]:
    """The values of a table by the names of the fields that they fill.

    Raises:
        MistakeError: a key is unknown, or a value is not what it takes.
    """
    values = {}
    for name, value in table.items():
        if name not in keys:
            where = f" in [{'.'.join(at)}]" if at else ""
            raise MistakeError((*at, name), f"unknown key '{name}'{where}{nearest(name, keys)}")
        values[name.replace("-", "_")] = keys[name].read((*at, name), value, base)
    return values


# -- values --------------------------------------------------------------------------------------------------------


def _strings(path: tuple[str, ...], value: object, base: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise MistakeError(path, f"'{path[-1]}' must be a list of strings")
    return tuple(value)


def _selectors(path: tuple[str, ...], value: object, base: str) -> tuple[str, ...]:
    words = _strings(path, value, base)
    for word in words:
        try:
            codes_of(word, rulebook.catalogue())
        except UnknownRuleError as error:
            raise MistakeError(path, str(error), word) from error
    return words


def _globs(path: tuple[str, ...], value: object, base: str) -> tuple[Glob, ...]:
    return tuple(Glob(word, base) for word in _strings(path, value, base))


def _names(path: tuple[str, ...], value: object, base: str) -> tuple[str, ...]:
    words = _strings(path, value, base)
    for word in words:
        if not is_name(word):
            raise MistakeError(path, f'\'{word}\' is no name, as in "scale_loss" or "mylib.losses.scale_loss"', word)
    return words


def _per_file(path: tuple[str, ...], value: object, base: str) -> tuple[tuple[Glob, tuple[str, ...]], ...]:
    return tuple(
        (Glob(pattern, base), _selectors((*path, pattern), words, base)) for pattern, words in _table(path, value)
    )


def _losses(path: tuple[str, ...], value: object, base: str) -> tuple[OwnLoss, ...]:
    made = []
    for name, described in _table(path, value):
        if not is_name(name):
            raise MistakeError((*path, name), f"'{name}' is no name of a function or class")
        table = dict(_table((*path, name), described))
        made.append(OwnLoss(name, **read(LOSS_KEYS, table, base, (*path, name))))
    return tuple(made)


def _table(path: tuple[str, ...], value: object) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise MistakeError(path, f"'{path[-1]}' must be a table")
    return list(value.items())


def _one_of(kind: type[enum.Enum]) -> Callable[[tuple[str, ...], object, str], enum.Enum]:
    words = [member.value for member in kind]

    def read(path: tuple[str, ...], value: object, base: str) -> enum.Enum:
        if value not in words:
            near = nearest(value, words) if isinstance(value, str) else ""
            raise MistakeError(path, f"'{path[-1]}' must be one of {', '.join(words)}{near}")
        return kind(value)

    return read


def _flag(path: tuple[str, ...], value: object, base: str) -> bool:
    if not isinstance(value, bool):
        raise MistakeError(path, f"'{path[-1]}' must be true or false")
    return value


def _file(path: tuple[str, ...], value: object, base: str) -> str:
    if not isinstance(value, str) or not value:
        raise MistakeError(path, f"'{path[-1]}' must be the path of a file")
    return value


def _below(path: tuple[str, ...], value: object, base: str) -> Below:
    head = Path(os.path.normpath(value or ".")).parts[:1] if isinstance(value, str) else ()
    if not isinstance(value, str) or head in {(), ("..",), (Path(value).anchor,)}:
        raise MistakeError(path, f"'{path[-1]}' must be a folder below this file's own; --cache-dir takes any")
    return Below(value, base)


def _release(path: tuple[str, ...], value: object, base: str) -> str:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        if isinstance(value, str):
            SpecifierSet(value if value.strip()[:1] in tuple("<>=!~") else f"=={value}")
            return value
    except InvalidSpecifier:
        pass
    raise MistakeError(
        path, f'\'{path[-1]}\' must be a version or a range of versions, for example "4.57" or ">=4.53,<5"'
    )


def _argument(path: tuple[str, ...], value: object, base: str) -> int | str:
    if isinstance(value, str) and value.isidentifier():
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise MistakeError(path, f"'{path[-1]}' must be an argument's name, or its position from 0")


def _label(path: tuple[str, ...], value: object, base: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise MistakeError(path, f"'{path[-1]}' must be a whole number")
    return value


# -- schemas -------------------------------------------------------------------------------------------------------

_TEXT: Mapping[str, Any] = {"type": "string", "minLength": 1}
_LIST: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}
_RULES: Mapping[str, Any] = {"type": "array", "items": {"$ref": "#/$defs/rule"}}
_NAMES: Mapping[str, Any] = {"type": "array", "items": {"$ref": "#/$defs/name"}}


def _words(kind: type[enum.Enum]) -> Mapping[str, Any]:
    return {"enum": [member.value for member in kind]}


def _by_name(*keys: Key) -> dict[str, Key]:
    return {key.name: key for key in keys}


LOSS_KEYS = _by_name(
    Key(
        "reduction",
        "What it gives: the mean of its items (the default), their sum, or each item.",
        _one_of(LossReduction),
        _words(LossReduction),
    ),
    Key(
        "target",
        "The argument that holds the targets: its name, or its position from 0. The default is 1.",
        _argument,
        {"oneOf": [{"type": "string", "pattern": r"^[^\W\d]\w*$"}, {"type": "integer", "minimum": 0}]},
    ),
    Key("ignored-label", "The label that is not scored; without it every target is.", _label, {"type": "integer"}),
)

KEYS = _by_name(
    Key("extend", "A configuration file that this one goes on from; relative to this file.", _file, _TEXT),
    Key("select", "The rules that are on: codes, names, prefixes of codes, ALL.", _selectors, _RULES),
    Key("ignore", "The rules that are off; the narrower selector wins.", _selectors, _RULES),
    Key("extend-select", "Rules that are on, too.", _selectors, _RULES),
    Key(
        "per-file-ignores",
        "Rules that are off in files of a pattern, relative to this file's folder.",
        _per_file,
        {"type": "object", "additionalProperties": _RULES},
    ),
    Key("min-severity", "The least severity that is shown. Default: warning.", _one_of(Severity), _words(Severity)),
    Key("exclude", "Files and folders that are passed over, instead of the default ones.", _globs, _LIST),
    Key("extend-exclude", "Files and folders that are passed over, too.", _globs, _LIST),
    Key(
        "target-transformers",
        "The version of Transformers that is meant, or a range; otherwise what the project requires, else the newest.",
        _release,
        _TEXT,
    ),
    Key(
        "helpers",
        "Fixes add a private function (the default), or import gafixer.accumulate.",
        _one_of(Helpers),
        _words(Helpers),
    ),
    Key(
        "strategy",
        "How fixes bring in the window's count: what fits (auto, default), only by dividing the gradients (rescale), "
        "only by a loader that looks at the whole window first (read-ahead; DeepSpeed always).",
        _one_of(Strategy),
        _words(Strategy),
    ),
    Key("unsafe-fixes", "Apply, or show, also fixes that assume something.", _flag, {"type": "boolean"}),
    Key(
        "cache-dir",
        "The folder of the cache, below this file's own. Default: .gafixer_cache at the root of the project.",
        _below,
        _TEXT,
    ),
    Key("steps-names", "What the project calls the number of microbatches of a window.", _names, _NAMES),
    Key("step-functions", "Functions that step the optimizer.", _names, _NAMES),
    Key("divide-functions", "Functions that divide the loss that they are given by the steps.", _names, _NAMES),
    Key(
        "losses",
        "The project's own losses, by the name of the function or class.",
        _losses,
        {"type": "object", "propertyNames": {"$ref": "#/$defs/name"}, "additionalProperties": {"$ref": "#/$defs/loss"}},
    ),
)
