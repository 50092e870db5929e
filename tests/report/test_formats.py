"""The other formats, and how paths are named."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from gafixer.report import Format, render, render_statistics
from gafixer.report.names import Names
from tests.report.findings import finding, place, train

if TYPE_CHECKING:
    from gafixer.findings import Place

NAMES = Names("/work")


def none(place: Place) -> None:
    """No format but `full` asks for code."""
    raise AssertionError(place)


def test_concise() -> None:
    """A line each; the star is for safe fixes only."""
    shown = render(Format.CONCISE, [train(), finding(place("b.py", 1, 2, 3))], NAMES, source=none)
    assert shown == (
        "train.py:6:16: GA101 [*] the mean of 4 means is not the mean over the window's tokens\nb.py:1:2: GA101 said\n"
    )


def test_json_is_ascii_and_complete() -> None:
    """Edits and places in other files are there; nothing needs an encoding."""
    shown = render(Format.JSON, [train(), finding(place("é.py", 1, 2, 3), message="\x9b1m")], NAMES, source=none)
    assert shown.isascii()
    first, second = json.loads(shown)["findings"]
    assert [related["filename"] for related in first["related"]] == ["train.py"] * 4 + ["lib/data.py"]
    assert first["fix"] == {
        "applicability": "safe",
        "message": "divide by the window's tokens",
        "edits": [{"location": {"row": 6, "column": 16}, "end_location": {"row": 6, "column": 28}, "content": "loss"}],
    }
    assert (second["filename"], second["message"], second["fix"]) == ("é.py", "\x9b1m", None)


def test_empty() -> None:
    """No findings: no text for people, a whole document for programs."""
    assert render(Format.FULL, [], NAMES, source=none) == ""
    assert render(Format.CONCISE, [], NAMES, source=none) == ""
    assert json.loads(render(Format.JSON, [], NAMES, source=none))["findings"] == []


def test_statistics() -> None:
    """The most frequent rule first."""
    found = [train(), train(), *[finding(place("b.py", 1, 1, 2))] * 8]
    assert render_statistics(Format.FULL, found) == "10  GA101  mean-over-steps\n"
    assert render_statistics(Format.CONCISE, []) == ""


def test_names() -> None:
    """Relative for programs; for people only below the working directory."""
    assert NAMES.relative("/work/a/../b.py") == NAMES.short("b.py") == "b.py"
    assert (NAMES.relative("/other/b.py"), NAMES.short("/other/b.py")) == ("../other/b.py", "/other/b.py")
    assert NAMES.short("../b.py") == "/b.py"
    assert NAMES.short(os.fsdecode(b"caf\xe9.py")) == "caf\ufffd.py"
    assert NAMES.short("..b.py") == "..b.py"
