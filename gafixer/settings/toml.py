"""TOML, read when it is needed: its reader costs more than the scan of a small project."""

from __future__ import annotations

import re
import sys
from typing import Any

__all__ = ["TomlError", "parse"]


class TomlError(ValueError):
    """The text is no TOML. `place` is `:row:column`, or empty."""

    def __init__(self, text: str, place: str) -> None:
        super().__init__(text)
        self.place = place


def parse(text: str) -> dict[str, Any]:
    """The document.

    Raises:
        TomlError: it is none.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        place = ":{}:{}".format(*where.groups()) if where else ""
        raise TomlError(str(error)[: where.start()] if where else str(error), place) from error
    return document
