"""Notebooks for tests."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LISTS", "STRINGS", "STYLES", "cut", "markdown", "notebook", "sources"]

LISTS, STRINGS = "lists", "strings"
#: Keyword arguments of `json.dumps`: as Jupyter writes notebooks, and as others do.
STYLES: dict[str, dict[str, Any]] = {
    "jupyter": {"indent": 1, "ensure_ascii": False},
    "wide": {"indent": 4},
    "one line": {"separators": (",", ":")},
    "sorted": {"indent": 2, "sort_keys": True},
}


class markdown(str):  # noqa: N801 - reads as a kind of cell
    """The text of a cell that is no code."""

    __slots__ = ()


def notebook(*cells: str, language: str | None = "python", style: str = "jupyter", sources: str = LISTS) -> str:
    """A document of these cells, with outputs and metadata that nobody may touch."""
    made = [_cell(number, text, sources) for number, text in enumerate(cells)]
    metadata: dict[str, Any] = {"zoom": 1.50, "été": "\u2028"}
    if language is not None:
        metadata["kernelspec"] = {"display_name": language, "language": language, "name": language}
    document = {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    # A number that Python writes another way, and a member that is there twice.
    return json.dumps(document, **STYLES[style]).replace("1.5", '1.50e+00, "zoom": 15E-1') + "\n"


def _cell(number: int, text: str, sources: str) -> dict[str, Any]:
    source: Any = text if sources == STRINGS else [line for line in re.split(r"(?<=\n)", text) if line]
    if isinstance(text, markdown):
        return {"cell_type": "markdown", "id": f"m{number}", "metadata": {}, "source": source}
    output = {"name": "stdout", "output_type": "stream", "text": ["loss.backward()\n", "1e-05 é </script>"]}
    return {
        "cell_type": "code",
        "execution_count": number,
        "id": f"c{number}",
        "metadata": {"tags": ["a/b"]},
        "outputs": [output],
        "source": source,
    }


def cut(program: str) -> list[str]:
    """A program as cells: one for each part that two blank lines set apart."""
    return [part for part in program.strip("\n").split("\n\n\n") if part]


def sources(document: str) -> list[str]:
    """The text of each cell."""
    return ["".join(cell["source"]) for cell in json.loads(document)["cells"]]


def lines_of(parts: Iterable[str]) -> list[str]:
    """All lines that are not blank, in order."""
    return [line for part in parts for line in part.split("\n") if line.strip()]
