"""The format for people."""

from __future__ import annotations

import re

from gafixer.findings import Related, Role
from gafixer.report import Format, render
from gafixer.report.names import Names
from tests.report.findings import TRAIN, finding, place, train

NAMES = Names("/work")


def full(found: object, source: str | None, *, colour: bool = False) -> str:
    """One finding, shown."""
    return render(Format.FULL, [found], NAMES, source=lambda _: source, colour=colour)  # type: ignore[list-item]


def test_all_places() -> None:
    """Every labelled place of the file in its code, the others below, gaps elided."""
    assert (
        full(train(), TRAIN)
        == """\
train.py:6:16: GA101 [*] mean-over-steps
error: the mean of 4 means is not the mean over the window's tokens
  |
2 |     for step, batch in enumerate(loader):
  |     ------------------------------------- loop: a window is 4 microbatches (to line 9)
3 |         logits = model(batch["input_ids"])
4 |         loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
  |                ---------------------------------------------------------------- mean over the microbatch's tokens
5 |
6 |         loss = loss / steps
  |                ^^^^^^^^^^^^ divide: by 4 steps
7 |         loss.backward()
  |         --------------- backward
  |
  = lib/data.py:12:5 evidence: labels are filled with -100
  = help: do this
  = fix (safe): divide by the window's tokens

"""
    )


def test_colours_change_nothing_else() -> None:
    """Without its colours the coloured text is the plain one."""
    coloured = full(train(), TRAIN, colour=True)
    assert coloured != full(train(), TRAIN)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == full(train(), TRAIN)


def marked(source: str, row: int, start: int, end: int, end_row: int | None = None) -> list[str]:
    """The code line and the line that underlines it, without the gutter."""
    shown = full(finding(place("a.py", row, start, end, end_row)), source).split("\n")
    at = next(index for index, line in enumerate(shown) if re.match(r" +\| +\^|^ +\| \^", line))
    return [line.partition("| ")[2] for line in shown[at - 1 : at + 1]]


def test_tabs_and_wide_characters() -> None:
    """The underline stands below its span in terminal columns."""
    assert marked("\tx = y\n", 1, 2, 3) == ["    x = y", "    ^"]
    assert marked("a\tx = y\n", 1, 3, 4) == ["a   x = y", "    ^"]
    assert marked("名前 = loss\n", 1, 6, 10) == ["名前 = loss", "       ^^^^"]
    assert marked("名前 = loss\n", 1, 1, 3) == ["名前 = loss", "^^^^"]
    assert marked("e\u0301 = loss\n", 1, 6, 10) == ["e\u0301 = loss", "    ^^^^"]


def test_control_characters() -> None:
    """Shown as pictures, a column each; text that runs backwards is defused."""
    assert marked("'\x1b[2J' + x\n", 1, 10, 11) == ["'␛[2J' + x", "         ^"]
    assert marked("'\u202e' + x\n", 1, 7, 8) == ["'\ufffd' + x", "      ^"]
    assert marked("\x0cx = 1\n", 1, 2, 3) == ["␌x = 1", " ^"]


def test_line_ends() -> None:
    """Rows are Python's: \\n, \\r\\n and \\r end them, form feeds and other separators do not."""
    assert marked("a\r\nb\x0cb\x85\u2028\rc = 1\r\n", 3, 1, 2) == ["c = 1", "^"]


def test_long_lines_are_cut() -> None:
    """To what surrounds the mark."""
    code, line = marked("x = [" + "1, " * 1000 + "loss / n, " + "1, " * 1000 + "]\n", 1, 3006, 3014)
    assert code.startswith("...")
    assert code.endswith("...")
    assert len(code) < 180
    assert code[line.index("^") : line.rindex("^") + 1] == "loss / n"


def test_spans_that_do_not_fit() -> None:
    """A file that has changed since it was scanned, or is gone, costs the code, not the finding."""
    assert marked("x\n", 1, 40, 50) == ["x", " ^"]
    for source in (None, "", "x\n"):
        shown = full(finding(place("a.py", 30, 1, 5)), source)
        assert shown == "a.py:30:1: GA101 mean-over-steps\nerror: said\n  = help: do this\n\n"


def test_several_marks_on_a_line() -> None:
    """One line each, and what is said of one span twice stands together."""
    where = place("a.py", 1, 2, 10)
    found = finding(
        where,
        Related(Role.BACKWARD, place("a.py", 1, 1, 22), "here"),
        Related(Role.DIVIDE, where, "by 4"),
        Related(Role.EVIDENCE, where, "steps is 4"),
    )
    assert full(found, "(loss / 4).backward()\n").split("\n")[3:6] == [
        "1 | (loss / 4).backward()",
        "  | --------------------- backward: here",
        "  |  ^^^^^^^^ divide: by 4; evidence: steps is 4",
    ]


def test_messages_stay_on_their_line() -> None:
    """Whatever scanned text they quote."""
    shown = full(finding(place("a.py", 1, 1, 2), message="reads 'a\nb\x1b[1m'"), "x\n")
    assert "error: reads 'a␊b␛[1m'\n" in shown
