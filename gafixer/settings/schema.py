"""The JSON schema of the settings, for editors: made from the table of keys. `python -m gafixer.settings.schema`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gafixer import rulebook
from gafixer.settings.keys import KEYS, LOSS_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gafixer.settings.keys import Key

__all__ = ["render", "schema"]


def schema() -> dict[str, Any]:
    """The schema of gafixer.toml, which is that of the table [tool.gafixer] too."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gafixer",
        "description": "Settings of gafixer, in gafixer.toml or in [tool.gafixer] of pyproject.toml.",
        **_table(KEYS),
        "$defs": {
            "rule": {"type": "string", "enum": _selectors()},
            "name": {"type": "string", "pattern": r"^[^\W\d]\w*(\.[^\W\d]\w*)*$"},
            "loss": _table(LOSS_KEYS),
        },
    }


def render() -> str:
    """The schema as it ships with the package."""
    return json.dumps(schema(), indent=2) + "\n"


def _table(keys: Mapping[str, Key]) -> dict[str, Any]:
    properties = {key.name: {"description": key.does, **key.schema} for key in keys.values()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _selectors() -> list[str]:
    """Everything that selects a rule: ALL, every prefix of a code, every name."""
    catalogue = rulebook.catalogue()
    prefixes = sorted({code[:end] for code in catalogue for end in range(1, len(code) + 1)})
    return ["ALL", *prefixes, *catalogue.values()]


if __name__ == "__main__":
    print(render(), end="")
