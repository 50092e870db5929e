"""JUnit XML: a suite for each file, a failed case for each finding."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

from gafixer.report.concise import place
from gafixer.report.text import Style, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gafixer.findings import Finding
    from gafixer.report.names import Names

__all__ = ["render"]

_PLAIN = Style(colour=False)


def render(findings: Sequence[Finding], names: Names) -> str:
    """All findings as one document; without any, a case that passed: readers take an empty one for a lost report."""
    root = Xml.Element("testsuites", {"name": "gafixer", **_counts(len(findings))})
    for path, group in itertools.groupby(findings, key=lambda finding: finding.place.filename):
        members = list(group)
        suite = Xml.SubElement(root, "testsuite", {"name": printable(names.relative(path)), **_counts(len(members))})
        for finding in members:
            _case(suite, finding, names)
    if not findings:
        suite = Xml.SubElement(root, "testsuite", name="gafixer", tests="1", failures="0", errors="0")
        Xml.SubElement(suite, "testcase", name="no findings", classname="gafixer")
    Xml.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Xml.tostring(root, encoding="unicode")}\n'


def _counts(number: int) -> dict[str, str]:
    return {"tests": str(max(number, 1)), "failures": str(number), "errors": "0"}


def _case(suite: Xml.Element, finding: Finding, names: Names) -> None:
    name = printable(names.relative(finding.place.filename))
    where = place(finding.place, names, _PLAIN).removeprefix(f"{name}:")
    title = f"{finding.code} {finding.name} ({where})"
    case = Xml.SubElement(suite, "testcase", name=title, classname=name.removesuffix(".py"))
    failure = Xml.SubElement(case, "failure", message=printable(finding.message), type=finding.severity.value)
    failure.text = "\n".join(_details(finding, names))


def _details(finding: Finding, names: Names) -> Iterator[str]:
    yield f"{place(finding.place, names, _PLAIN)}: {finding.code} {printable(finding.message)}"
    for related in finding.related:
        yield f"{place(related.place, names, _PLAIN)}: {related.role.value}: {printable(related.message)}"
    if finding.help:
        yield f"help: {printable(finding.help)}"
