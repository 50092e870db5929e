"""Comments that silence findings, and places where they don't."""

from __future__ import annotations

import pytest

from gafixer.comments import suppress
from tests.comments.making import finding


def is_silenced(source: str, row: int) -> bool:
    """Whether the finding at this row is gone."""
    return not suppress(source.encode(), [finding(row)])


OURS = "# gafixer: ignore[GA101] equal counts"
CALL = "loss = f(\n    x / 4,\n    y,\n)"


@pytest.mark.parametrize(
    ("source", "row"),
    [
        (f"loss / 4  {OURS}\n", 1),
        (f"loss / 4  {OURS}", 1),
        (f"{OURS}\nloss / 4\n", 2),
        (f"if x:\n    {OURS}\n    # and more words\n    loss / 4\n", 4),
        (f"if x:\n    # first words\n    {OURS}\n    loss / 4\n", 4),
        (CALL.replace("f(", f"f(  {OURS}"), 2),
        (f"{CALL}  {OURS}\n", 2),
        (f"{CALL}  {OURS}\n", 1),
        (f"{OURS}\n{CALL}\n", 3),
        (f"with a, b:  {OURS}\n    pass\n", 1),
        (f"x = '''\n'''  {OURS}\n", 1),
        ("loss / 4  # gafixer: ignore[mean-over-steps]\n", 1),
        ("loss / 4  # gafixer:ignore[GA207,GA101]\n", 1),
        ("loss / 4  # words  # gafixer: ignore[ GA101 , ]\n", 1),
        ("loss / 4\n\n\n# gafixer: file-ignore[GA101] equal counts\n", 1),
        ("loss / 4  # noqa: GA101\n", 1),
        ("loss / 4  # NOQA:E501, ga101 words\n", 1),
        ("loss / 4  # noqa\n", 1),
        (f"loss / 4  {OURS}\r\nx\r\n", 1),
        (f"x\rloss / 4  {OURS}\rx\r", 2),
        (f"x\f\nloss / 4  {OURS}\n", 2),
        (f"loss / 4  {OURS}\nx = (\n", 1),
        ("é = 1\nloss / 4  # noqa: GA101\n", 2),
    ],
)
def test_silenced(source: str, row: int) -> None:
    """On the first or last line of the statement, alone above it, or for the file."""
    assert is_silenced(source, row)


@pytest.mark.parametrize(
    ("source", "row"),
    [
        ("loss / 4\n", 1),
        (f"loss / 4\n{OURS}\n", 1),
        (f"{OURS}\n\nloss / 4\n", 3),
        (f"x = 1  {OURS}\nloss / 4\n", 2),
        (CALL.replace("x / 4,", f"x / 4,  {OURS}"), 2),
        (f"if x:  {OURS}\n    loss / 4\n", 2),
        (f"text = '{OURS}'; loss / 4\n", 1),
        (f"'''\n{OURS}\n'''\nloss / 4\n", 4),
        ("loss / 4  # gafixer: ignore[GA102]\n", 1),
        ("loss / 4  # gafixer: ignore[GA1]\n", 1),
        ("loss / 4  # gafixer: ignore\n", 1),
        ("loss / 4  # gafixer: ignored[GA101]\n", 1),
        ("loss / 4  # noqa: E501\n", 1),
        ("loss / 4  # noqa-like words, noqas\n", 1),
        ("loss / 4  # noqa: because\n", 1),
        (f"x = (\n\nloss / 4  {OURS}\n", 3),
    ],
)
def test_not_silenced(source: str, row: int) -> None:
    """Another statement, another rule, a string, words that only look alike."""
    assert not is_silenced(source, row)


def test_only_what_is_named() -> None:
    """Other findings of the line and of the file stay, in their order."""
    source = b"# gafixer: file-ignore[GA501]\nloss / 4  # gafixer: ignore[GA101]\nloss / 4\n"
    found = [finding(2), finding(2, "GA102", "short-window"), finding(3), finding(3, "GA501", "log-scale")]
    assert suppress(source, found) == (found[1], found[2])


def test_bytes_that_are_no_source() -> None:
    """A finding about a file that can't be read at all stays."""
    for source in (b"\xff\xfe gafixer: noqa", b"\x00noqa", b"# coding: nonsense\n# noqa\n", b"  x\n y # noqa\n"):
        assert suppress(source, [finding(1)]) == (finding(1),)
