"""Settings as TOML, for `--show-settings`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gafixer.declared import OwnLoss
    from gafixer.files import Glob
    from gafixer.settings.model import Settings

__all__ = ["render"]


def render(settings: Settings) -> str:
    """What holds, under the keys that would set it."""
    return "".join(f"{line}\n" for line in _lines(settings))


def _lines(settings: Settings) -> Iterator[str]:
    said = settings.declared
    yield f"select = {_list(sorted(settings.selected))}"
    yield f"min-severity = {_string(settings.min_severity.value)}"
    yield f"exclude = {_list(map(_pattern, settings.exclude))}"
    if settings.target_transformers is not None:
        yield f"target-transformers = {_string(settings.target_transformers)}"
    yield f"helpers = {_string(settings.helpers.value)}"
    yield f"strategy = {_string(settings.strategy.value)}"
    yield f"unsafe-fixes = {'true' if settings.unsafe_fixes else 'false'}"
    if settings.cache_dir is not None:
        yield f"cache-dir = {_string(settings.cache_dir.path)}"
    yield f"steps-names = {_list(said.steps_names)}"
    yield f"step-functions = {_list(said.step_functions)}"
    yield f"divide-functions = {_list(said.divide_functions)}"
    if settings.per_file:
        yield "\n[per-file-ignores]"
        for entry in settings.per_file:
            yield f"{_string(_pattern(entry.glob))} = {_list(sorted(entry.codes))}"
    for loss in said.losses:
        yield from _loss(loss)


def _loss(loss: OwnLoss) -> Iterator[str]:
    yield f"\n[losses.{_string(loss.name)}]"
    yield f"reduction = {_string(loss.reduction.value)}"
    yield f"target = {loss.target if isinstance(loss.target, int) else _string(loss.target)}"
    if loss.ignored_label is not None:
        yield f"ignored-label = {loss.ignored_label}"


def _pattern(glob: Glob) -> str:
    """A pattern as it holds anywhere: one that speaks of a path with the folder that it holds below."""
    return (
        f"{glob.base.rstrip('/')}/{glob.pattern}" if glob.is_path and not glob.pattern.startswith("/") else glob.pattern
    )


def _list(words: Iterable[str]) -> str:
    return f"[{', '.join(map(_string, words))}]"


def _string(text: str) -> str:
    """A basic string: what JSON escapes, TOML does the same way."""
    return json.dumps(text)
