"""What reaches a terminal, and what a terminal can do to a scan."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.command import FAKE, gafixer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("environment", "terminal", "coloured"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
    ],
)
def test_colour(tmp_path: Path, environment: dict[str, str], terminal: bool, coloured: bool) -> None:
    """Colour on a terminal only; NO_COLOR and FORCE_COLOR are kept."""
    (tmp_path / "train.py").write_text("x = 1  # GA101 error\n")
    arguments = ["scan", "train.py"]
    if terminal:
        out = on_terminal(arguments, tmp_path, environment)
    else:
        out = gafixer(*arguments, cwd=tmp_path, env=environment).stdout
    assert "GA101" in out
    assert ("\x1b[" in out) == coloured


def test_escapes_in_scanned_code_do_not_reach_the_terminal(tmp_path: Path) -> None:
    """Neither from the code nor from the name of a file."""
    name = "a\x1b[31m\n.py"
    (tmp_path / name).write_text("x = '\x1b]0;owned\x07'  # GA101 error \x9b31m \u202e\n")
    for format_ in ("full", "concise", "json"):
        run = gafixer("scan", "--output-format", format_, cwd=tmp_path)
        assert run.returncode == 1
        assert not any(character in run.stdout for character in "\x1b\x07\x9b\u202e")


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """A file whose name is not UTF-8 is scanned and shown."""
    (tmp_path / os.fsdecode(b"caf\xe9.py")).write_text("# GA101 error")
    for arguments in ([], ["--output-format", "json"], ["--jobs", "2"]):
        run = gafixer("scan", *arguments, cwd=tmp_path)
        assert run.returncode == 1
        assert "caf" in run.stdout


def test_narrow_output_encoding(tmp_path: Path) -> None:
    """A terminal that can't show a character gets its escape, not a crash."""
    (tmp_path / "a.py").write_text("x = '日本'  # GA101 error\n", encoding="utf-8")
    run = gafixer("scan", cwd=tmp_path, env={"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"})
    assert (run.returncode, r"\u65e5\u672c" in run.stdout) == (1, True)


def test_broken_pipe(tmp_path: Path) -> None:
    """Who reads no further gets no complaint, and the exit code still tells what was found."""
    (tmp_path / "a.py").write_text("# GA101 error\n" * 20_000)
    run = subprocess.Popen([*FAKE, "scan"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.readline()
    run.stdout.close()
    complaint = run.stderr.read()
    run.stderr.close()
    assert run.wait(timeout=60) == 1
    assert complaint.startswith("gafixer: found 20000 errors in 1 file")
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_interrupt(tmp_path: Path, jobs: str) -> None:
    """Ctrl-C: 130, and nothing but perhaps an empty line."""
    for number in range(2_000):
        (tmp_path / f"f{number}.py").write_text("# GA101 error\n" * 2_000)
    run = subprocess.Popen(
        [*FAKE, "scan", "--jobs", jobs],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    time.sleep(1.0)
    assert run.poll() is None
    os.killpg(run.pid, signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert (run.returncode, out, err.strip()) == (130, "", "")


def on_terminal(arguments: list[str], cwd: Path, environment: dict[str, str]) -> str:
    """What the command prints when standard output is a terminal."""
    ours, theirs = pty.openpty()
    clean: dict[str, Any] = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    run = subprocess.Popen(
        [*FAKE, *arguments],
        cwd=cwd,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=clean | {"TERM": "xterm-256color"} | environment,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    run.wait(timeout=60)
    return shown.decode()
