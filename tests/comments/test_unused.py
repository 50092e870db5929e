"""GA901: which comments silence nothing, and what is left when they are taken out."""

from __future__ import annotations

import pytest

from gafixer import comments, rulebook
from gafixer.codemod import edits
from gafixer.findings import Applicability, Finding
from tests.comments.making import finding

ALL = frozenset(rulebook.catalogue())


def idle(source: str, *found: Finding, selected: frozenset[str] = ALL) -> list[Finding]:
    """What is said of comments."""
    settled = comments.settle(source.encode(), "a.py", found, selected)
    return [f for f in settled if f.code == comments.UNUSED]


def without(source: str, *found: Finding) -> str:
    """The source with the comments repaired."""
    said = idle(source, *found)
    assert all(f.fix is not None and f.fix.applicability is Applicability.SAFE for f in said)
    return edits.apply(source, [edit for f in said if f.fix is not None for edit in f.fix.edits])


@pytest.mark.parametrize(
    ("source", "found", "left"),
    [
        ("x = 1  # gafixer: ignore[GA101] why\n", [], "x = 1\n"),
        ("x = 1  # gafixer: ignore[GA101]", [], "x = 1"),
        ("x = 1  # gafixer: ignore[mean-over-steps]\n", [], "x = 1\n"),
        ("x = 1  # gafixer: ignore[GA101, GA102] why\n", [finding(1)], "x = 1  # gafixer: ignore[GA101] why\n"),
        ("x = 1  # gafixer: ignore[GA999]\n", [], "x = 1\n"),
        ("x = 1  # gafixer: ignore[GA101,GA999]\n", [finding(1)], "x = 1  # gafixer: ignore[GA101]\n"),
        ("# gafixer: file-ignore[GA101]\nx = 1\n", [], "x = 1\n"),
        (
            "# gafixer: file-ignore[GA101, GA201] why\nx = 1\n",
            [finding(2)],
            "# gafixer: file-ignore[GA101] why\nx = 1\n",
        ),
        ("if x:\n    # gafixer: ignore[GA101] why\n    # more\n    y()\n", [], "if x:\n    # more\n    y()\n"),
        ("# about x  # gafixer: ignore[GA101]\nx = 1\n", [], "# about x\nx = 1\n"),
        ("x = 1  # gafixer: ignore[GA101] why  # type: ignore\n", [], "x = 1  # type: ignore\n"),
        ("x = 1  # noqa: GA101\n", [], "x = 1\n"),
        ("x = 1  # noqa: E501, GA101 words\n", [], "x = 1  # noqa: E501 words\n"),
        ("x = 1  # NOQA:GA101,GA102\n", [finding(1, "GA102", "short-window")], "x = 1  # NOQA:GA102\n"),
        ("x = (\n    1,  # gafixer: ignore[GA101]\n    2,\n)\n", [finding(1)], "x = (\n    1,\n    2,\n)\n"),
        ("x = 1\n# gafixer: ignore[GA101]\n", [finding(1)], "x = 1\n"),
        ("é = 'é'  # gafixer: ignore[GA101]\n", [], "é = 'é'\n"),
    ],
)
def test_repaired(source: str, found: list[Finding], left: str) -> None:
    """What silences nothing goes with its reason; all else stays; nothing more is said of what is left."""
    assert without(source, *found) == left
    assert idle(left, *found) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = 1  # gafixer: ignore[GA101]\n", [finding(1)]),
        ("# gafixer: file-ignore[GA101]\nx = 1\ny = 2\n", [finding(3)]),
        ("x = 1  # gafixer: ignore[GA101]  # noqa: GA101\n", [finding(1)]),
        ("x = 1  # noqa\n", []),
        ("x = 1  # noqa: E501\n", []),
        ("x = 1  # noqa: GAX101\n", []),
        ("x = 1  # gafixer: ignore[GA305, GA901] on the cluster\n", []),
        ("x = '# gafixer: ignore[GA101]'\n", []),
        ("x = 1  # gafixer: ignore[]\n", []),
        ("x = (  # gafixer: ignore[GA101]\n", [finding(1, "GA900", "unreadable")]),
    ],
)
def test_left_alone(source: str, found: list[Finding]) -> None:
    """What silences something, what belongs to other linters, and where nothing could be looked for."""
    assert idle(source, *found) == []


def test_only_what_was_looked_for() -> None:
    """Of a rule that is off nobody knows what it would find; an unknown one is never found."""
    source = "x = 1  # gafixer: ignore[GA101, GA999]\n"
    (said,) = idle(source, selected=frozenset({"GA201", "GA901"}))
    assert said.message == "this comment silences nothing: no rule is called GA999"
    assert idle(source, selected=ALL - {"GA901"}) == []


def test_message_and_place() -> None:
    """The comment alone is marked, and what is wrong with each rule is said."""
    (said,) = idle("x = 1  # words # gafixer: ignore[GA101, GA102, GA999]\n")
    assert said.message == (
        "this comment silences nothing: GA101 and GA102 are not found there, and no rule is called GA999"
    )
    assert (said.place.span.start.column, said.place.span.end.column) == (16, 54)
