"""What README shows is what the code says today."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from gafixer import rulebook
from tests.readme import fault, sections, terminal
from tests.readme.__main__ import PICTURES

ROOT = sections.README.parent
TEXT = sections.README.read_text(encoding="utf-8")


def test_tables() -> None:
    """Made again they are the same; `python -m tests.readme` mends it."""
    assert sections.filled(TEXT, sections.made()) == TEXT


def test_every_rule_has_its_row_and_a_page() -> None:
    """In the order of the codes."""
    rows = re.findall(r"^\| \[(GA\d{3})\]\((rules/\S+)\) \| (\S+) \|", TEXT, re.MULTILINE)
    assert [(code, name) for code, _, name in rows] == list(rulebook.catalogue().items())
    assert all((ROOT / page).is_file() for _, page, _ in rows)


def test_a_part_without_marks_is_told() -> None:
    """Nothing is lost in silence."""
    with pytest.raises(ValueError, match="no place for rules"):
        sections.filled("# gafixer\n", {"rules": ""})


def _painted(svg: str) -> list[tuple[str | None, str | None]]:
    """Each piece of text with the class that paints it; how rich lays them out may differ by its version."""
    texts = (element for element in ET.fromstring(svg).iter() if element.tag.endswith("text"))
    return [(element.get("class"), element.text) for element in texts]


def test_the_scan_as_it_looks() -> None:
    """The picture is today's output of the command."""
    shown = _painted((PICTURES / "scan.svg").read_text(encoding="utf-8"))
    assert shown == _painted(terminal.picture())
    assert len(shown) > 20


def test_the_fault_as_it_is_drawn() -> None:
    """The numbers are measured: the picture of what is measured now is the picture that is there."""
    measured = fault.measure()
    assert measured.norm != pytest.approx(1, abs=1e-3)
    assert measured.cosine < 0.99
    assert (PICTURES / "fault.svg").read_text(encoding="utf-8") == fault.picture(measured)


@pytest.mark.parametrize("name", ["fault.svg", "scan.svg"])
def test_pictures(name: str) -> None:
    """They stand on the page, are XML, and fetch nothing."""
    assert f"(.github/readme/{name})" in TEXT
    svg = (PICTURES / name).read_text(encoding="utf-8")
    assert ET.fromstring(svg).tag.endswith("svg")
    assert not re.search(r"url\((?!#)|href=|<script|@import|@font-face", svg)


def test_links() -> None:
    """What README points at in the repository is there."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT):
        assert Path(ROOT, target).exists(), target
