"""Comments that are added silence what was found, and the code stays what it was."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gafixer.comments import adding, suppress
from tests.comments.making import finding


@pytest.mark.parametrize(
    ("source", "row", "line"),
    [
        ("x = 1\n", 1, "x = 1  # gafixer: ignore[GA101] why"),
        ("x = 1", 1, "x = 1  # gafixer: ignore[GA101] why"),
        ("x = 1  # words\n", 1, "x = 1  # words  # gafixer: ignore[GA101] why"),
        ("x = (\n    1,\n    2,\n)\n", 2, ")  # gafixer: ignore[GA101] why"),
        ("x = 1 + \\\n    2\n", 1, "    2  # gafixer: ignore[GA101] why"),
        ('x = """\na\n"""\n', 2, '"""  # gafixer: ignore[GA101] why'),
        ("for x in (\n    1,\n):\n    pass\n", 1, "):  # gafixer: ignore[GA101] why"),
        ("x = 1  # gafixer: ignore[GA201] so\n", 1, "x = 1  # gafixer: ignore[GA201, GA101] so"),
        ("# gafixer: ignore[GA201, ] so\nx = 1\n", 2, "# gafixer: ignore[GA201, GA101] so"),
        (
            "x  # gafixer: file-ignore[GA201]\n",
            1,
            "x  # gafixer: file-ignore[GA201]  # gafixer: ignore[GA101] why",
        ),
        ("x = 1  # noqa: E501\n", 1, "x = 1  # noqa: E501  # gafixer: ignore[GA101] why"),
    ],
)
def test_silenced(source: str, row: int, line: str) -> None:
    """At the end of the statement, or in the comment that is there."""
    made = adding.silenced(source, {row: {"GA101"}}, "why")
    assert line in made.split("\n")
    assert suppress(made.encode(), [finding(row)]) == ()
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(source))


def test_several_rules_of_a_statement() -> None:
    """In one comment; without a reason nothing follows it."""
    made = adding.silenced("f(\n  1)\ny = 1\n", {1: {"GA201"}, 2: {"GA101"}, 3: {"GA102"}}, "")
    assert made == "f(\n  1)  # gafixer: ignore[GA101, GA201]\ny = 1  # gafixer: ignore[GA102]\n"


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line ends and encoding stay; what no comment can silence is handed back; what can't be written is told."""
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_bytes(b"# coding: latin-1\r\nx = '\xe9'\r\n")
    beyond = finding(1, "GA900", "unreadable")
    made = adding.add([finding(2), beyond], "é")
    assert (made.silenced, made.paths, made.beyond, made.failures) == (1, ("a.py",), (beyond,), ())
    assert Path("a.py").read_bytes() == b"# coding: latin-1\r\nx = '\xe9'  # gafixer: ignore[GA101] \xe9\r\n"
    Path("a.py").unlink()
    (failure,) = adding.add([finding(2)], "").failures
    assert failure.line == "a.py: no comment added: no such file or directory"
