"""The plugin in the real flake8: off by default, the same findings in the same columns, nothing changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import REAL, gafixer

pytest.importorskip("flake8", reason="the test extra is not installed")

BAD = (Path(__file__).parents[2] / "rules" / "GA101_mean_over_steps" / "bad.py").read_text()
ON = ("--enable-extensions=GA", "--select=GA")
#: The same loop as people's editors save it.
SAVED = {
    "plain": BAD.encode(),
    "carriage returns": BAD.replace("\n", "\r\n").encode(),
    "mark": b"\xef\xbb\xbf" + BAD.encode(),
    "wide characters": BAD.replace("loss = loss / steps", 'é = "日本"; loss = loss / steps').encode(),
    "latin-1": ("# coding: latin-1\n" + BAD.replace("loss = loss / steps", 'é = "é"; loss = loss / steps')).encode(
        "latin-1"
    ),
    "tabs": BAD.replace("    ", "\t").encode(),
}


def flake8(*arguments: str, cwd: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Without the settings of this repository."""
    command = [sys.executable, "-m", "flake8", "--isolated", *arguments]
    run = subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, timeout=120, check=False)
    return subprocess.CompletedProcess(run.args, run.returncode, run.stdout.decode(), run.stderr.decode())


def test_off_by_default(tmp_path: Path) -> None:
    """Nobody's flake8 says more because gafixer is installed beside it."""
    (tmp_path / "train.py").write_text(BAD)
    assert "GA" not in flake8(".", "--select=GA,E9", cwd=tmp_path).stdout


@pytest.mark.parametrize("source", SAVED.values(), ids=SAVED)
def test_places(tmp_path: Path, source: bytes) -> None:
    """Rows and columns are those of `gafixer scan`, also of standard input, which may differ from the file."""
    (tmp_path / "train.py").write_bytes(source)
    ours = gafixer("scan", "train.py", "--output-format", "concise", cwd=tmp_path, command=REAL)
    place, _, message = ours.stdout.partition(": ")
    assert place.startswith("train.py:5")
    run = flake8("train.py", *ON, cwd=tmp_path)
    assert (run.returncode, run.stdout) == (1, f"{place}: {message.replace('[*] ', '')}")
    (tmp_path / "train.py").write_text("x = 1\n")
    piped = flake8("-", "--stdin-display-name=train.py", *ON, cwd=tmp_path, stdin=source)
    assert piped.stdout == run.stdout


def test_settings(tmp_path: Path) -> None:
    """Gafixer's settings hold, and a wrong one is told in a line."""
    (tmp_path / "train.py").write_text(BAD)
    (tmp_path / "gafixer.toml").write_text('ignore = ["GA101"]\n')
    assert flake8("train.py", *ON, cwd=tmp_path).stdout == ""
    (tmp_path / "gafixer.toml").write_text('ignroe = ["GA101"]\n')
    wrong = flake8("train.py", *ON, cwd=tmp_path)
    assert wrong.returncode == 1
    assert "gafixer: gafixer.toml:1: unknown key 'ignroe'" in wrong.stdout + wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_comments(tmp_path: Path) -> None:
    """Both kinds silence."""
    for comment in ("# noqa: GA101", "# gafixer: ignore[GA101]"):
        (tmp_path / "train.py").write_text(BAD.replace("loss / steps", f"loss / steps  {comment}"))
        assert flake8("train.py", *ON, cwd=tmp_path).stdout == ""
