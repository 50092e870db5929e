"""The settings of one file, and the layers that make them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from gafixer import declared, rulebook
from gafixer.files import DEFAULT_EXCLUDE, Glob
from gafixer.findings import Severity
from gafixer.selection import UnknownRuleError, codes_of, narrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gafixer.declared import Declared, OwnLoss

__all__ = ["Below", "Helpers", "Layer", "PerFile", "Settings", "SettingsError", "Strategy", "resolve"]


_T = TypeVar("_T")


class SettingsError(Exception):
    """A setting that can't be meant. The text is one line: where, what, and the nearest right word."""


class Helpers(enum.Enum):
    """Where rewritten code has its helper from."""

    PRIVATE = "private"
    IMPORT = "import"


class Strategy(enum.Enum):
    """How a fix may bring the window's count in: the first way that fits, or one of the ways only."""

    AUTO = "auto"
    RESCALE = "rescale"
    READ_AHEAD = "read-ahead"


@dataclass(frozen=True, slots=True)
class Below:
    """A folder that a configuration file names: `path` below the file's own folder `base`."""

    path: str
    base: str


@dataclass(frozen=True, slots=True)
class PerFile:
    """Rules that files of this pattern are not held to."""

    glob: Glob
    codes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a scan. `selected` holds rule codes, after `select`, `extend-select` and `ignore`.

    `target_transformers` is a version of Transformers, or a range of them; None: what the project requires.
    `ignore_comments`: what comments silence is reported all the same; only the command line says so.
    """

    selected: frozenset[str]
    min_severity: Severity = Severity.WARNING
    exclude: tuple[Glob, ...] = tuple(map(Glob, DEFAULT_EXCLUDE))
    per_file: tuple[PerFile, ...] = ()
    target_transformers: str | None = None
    helpers: Helpers = Helpers.PRIVATE
    strategy: Strategy = Strategy.AUTO
    unsafe_fixes: bool = False
    ignore_comments: bool = False
    cache_dir: Below | None = None
    declared: Declared = declared.NOTHING


@dataclass(frozen=True, slots=True)
class Layer:
    """What one place says: a configuration file, or the command line. None: it is silent."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[Glob, tuple[str, ...]], ...] | None = None
    min_severity: Severity | None = None
    exclude: tuple[Glob, ...] | None = None
    extend_exclude: tuple[Glob, ...] = ()
    target_transformers: str | None = None
    helpers: Helpers | None = None
    strategy: Strategy | None = None
    unsafe_fixes: bool | None = None
    ignore_comments: bool | None = None
    cache_dir: Below | None = None
    steps_names: tuple[str, ...] | None = None
    step_functions: tuple[str, ...] | None = None
    divide_functions: tuple[str, ...] | None = None
    losses: tuple[OwnLoss, ...] | None = None


def resolve(*layers: Layer) -> Settings:
    """The settings that the layers make, the last one the strongest.

    A layer that selects begins anew; one that does not changes what the layers before it selected.

    Raises:
        SettingsError: a selector means no rule.
    """
    catalogue = rulebook.catalogue()
    default = Settings(frozenset(catalogue))
    try:
        return Settings(
            selected=_selected(layers, catalogue),
            min_severity=_last(default.min_severity, (layer.min_severity for layer in layers)),
            exclude=_last(default.exclude, (layer.exclude for layer in layers))
            + tuple(glob for layer in layers for glob in layer.extend_exclude),
            per_file=_per_file(layers, catalogue),
            target_transformers=_last(None, (layer.target_transformers for layer in layers)),
            helpers=_last(default.helpers, (layer.helpers for layer in layers)),
            strategy=_last(default.strategy, (layer.strategy for layer in layers)),
            unsafe_fixes=_last(default.unsafe_fixes, (layer.unsafe_fixes for layer in layers)),
            ignore_comments=_last(default.ignore_comments, (layer.ignore_comments for layer in layers)),
            cache_dir=_last(None, (layer.cache_dir for layer in layers)),
            declared=declared.Declared(
                losses=_losses(layers),
                steps_names=_last((), (layer.steps_names for layer in layers)),
                step_functions=_last((), (layer.step_functions for layer in layers)),
                divide_functions=_last((), (layer.divide_functions for layer in layers)),
            ),
        )
    except UnknownRuleError as error:
        raise SettingsError(str(error)) from error


def _last(default: _T, said: Iterable[_T | None]) -> _T:
    """The last thing that was said."""
    for value in said:
        default = default if value is None else value
    return default


def _selected(layers: tuple[Layer, ...], catalogue: Mapping[str, str]) -> frozenset[str]:
    selected = frozenset(catalogue)
    for layer in layers:
        base = selected if layer.select is None else frozenset()
        selected = narrow(base, (*(layer.select or ()), *layer.extend_select), layer.ignore, catalogue)
    return selected


def _per_file(layers: tuple[Layer, ...], catalogue: Mapping[str, str]) -> tuple[PerFile, ...]:
    said = _last((), (layer.per_file_ignores for layer in layers))
    return tuple(PerFile(glob, frozenset().union(*(codes_of(w, catalogue) for w in words))) for glob, words in said)


def _losses(layers: tuple[Layer, ...]) -> tuple[OwnLoss, ...]:
    """By name: a layer that describes a loss again replaces the description."""
    return tuple({loss.name: loss for layer in layers for loss in layer.losses or ()}.values())
