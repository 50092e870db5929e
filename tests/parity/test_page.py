"""The report's page: all of it in one file, and nothing in it that a name or a message could break out of."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from gafixer.parity.curves import SPLITS, Curve
from gafixer.parity.divides import Division, Loss
from gafixer.parity.measure import Setting
from gafixer.parity.page import page
from gafixer.parity.page.charts import histogram, losses, span
from tests.parity.test_render import ALL, MENDED, report

if TYPE_CHECKING:
    from gafixer.parity.runner import HeadReport

DIVISIONS = (Division(Loss.PLAIN, 4, 1.0), Division(Loss.DROPS, 4, 4.0))
CURVES = tuple(
    Curve(way, patched, (1.0, 0.5, 0.5 if patched else 0.1 * place))
    for patched in (False, True)
    for place, way in enumerate(SPLITS)
)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>&amp;@SCRIPT@"


class Reader(HTMLParser):
    """Lists tags, the addresses in attributes, and the JSON that the page carries."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.facts = ""
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]
        self._inside = ("id", "facts") in attrs

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.facts += data


def read(*reports: HeadReport, patch: bool = True) -> Reader:
    reader = Reader()
    reader.feed(page(reports, DIVISIONS, Setting(), patch, curves=CURVES, trained="Some<Head>"))
    return reader


def test_needs_nothing_beside_itself() -> None:
    text = page(ALL, DIVISIONS, Setting(), True, curves=CURVES, trained="SomeHead")
    reader = read(*ALL)
    assert reader.addresses == []
    assert {"link", "iframe", "img"}.isdisjoint(reader.tags)
    assert not re.search(r"https?:|@import|url\(|fetch\(|XMLHttp|import\(", text)
    assert not re.search(r"@[A-Z]+@", text)


def test_what_the_page_carries_is_what_verify_found() -> None:
    facts = json.loads(read(*ALL).facts)
    assert [head["name"] for head in facts["heads"]] == [r.head.name for r in ALL]
    assert facts["heads"][0]["variants"][0]["before"]["ratio"] == 4.0


def test_names_and_messages_stay_text() -> None:
    harmless, hostile = read(MENDED), read(report(HOSTILE, (None, None), reason=HOSTILE))
    assert "img" not in hostile.tags
    assert hostile.tags.count("script") == harmless.tags.count("script") == 2
    (head,) = json.loads(hostile.facts)["heads"]
    assert head["name"] == HOSTILE
    assert head["variants"][0]["before"]["reason"] == HOSTILE


def test_without_the_patch_nothing_is_said_of_it() -> None:
    text = page([MENDED], DIVISIONS, Setting(), False)
    assert "right with gafixer.patch" not in text
    assert "right, patched" not in text


def test_charts_of_the_same_curves_share_their_scale() -> None:
    flat = Curve(SPLITS[0], False, (1.0, 1.0, 1.0))
    wild = Curve(SPLITS[1], False, (1.0, 50.0, math.nan))
    low, high = span([flat, wild])
    assert low < 1.0 < high < 2.0
    drawn = losses([flat, wild], (low, high), "title")
    first, second = re.findall(r' d="([^"]+)"', drawn)
    assert first.count("L") == 2
    assert second.count("L") == 1  # NaN is where the line ends
    assert "nan" not in drawn


@pytest.mark.parametrize("ratios", [[1.0], [0.001, 1.0, 900.0], [float("nan"), 1.0, 0.0]])
def test_every_ratio_has_its_place_in_the_histogram(ratios: list[float]) -> None:
    counted = [int(n) for n in re.findall(r'class="count"[^>]*>(\d+)<', histogram(ratios, []))]
    assert sum(counted) == sum(r > 0 for r in ratios)
