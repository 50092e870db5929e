"""What a fix has no business with survives it: line ends, BOM, encoding, indentation, mode, links."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gafixer import writing
from gafixer.codemod import edits
from tests.command import REAL, gafixer

BAD = (Path(__file__).parents[2] / "rules" / "GA103_divided_twice" / "bad.py").read_text(encoding="utf-8")
GOOD = (Path(__file__).parents[2] / "rules" / "GA103_divided_twice" / "good.py").read_text(encoding="utf-8")


def _scan(folder: Path, *options: str, stdin: str | bytes = b"") -> subprocess.CompletedProcess[str]:
    return gafixer("scan", *options, "--isolated", cwd=folder, command=REAL, stdin=stdin)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: f"# coding: latin-1\n# caf\xe9\n{text}".encode("latin-1"),
        lambda text: text.replace("    ", "\t").encode(),
        lambda text: text.replace("import torch\n", "import torch\n\f\n", 1).encode(),
        lambda text: text.rstrip("\n").encode(),
        lambda text: text.replace('"""Train a denoiser with Accelerate."""', "'''\u00fc \u4e2d'''\r").encode(),
    ],
    ids=["plain", "crlf", "bom", "latin", "tabs", "form_feed", "no_last_newline", "mixed_ends"],
)
def test_bytes_survive(tmp_path: Path, change: object) -> None:
    assert callable(change)
    (tmp_path / "train.py").write_bytes(change(BAD))
    assert _scan(tmp_path, ".", "--fix").returncode == 0
    assert (tmp_path / "train.py").read_bytes() == change(GOOD)


def test_mode_and_link_survive(tmp_path: Path) -> None:
    real = tmp_path / "real.txt"
    real.write_text(BAD, encoding="utf-8")
    real.chmod(0o754)
    (tmp_path / "train.py").symlink_to(real)
    assert _scan(tmp_path, "train.py", "--fix").returncode == 0
    assert (tmp_path / "train.py").is_symlink()
    assert real.read_text(encoding="utf-8") == GOOD
    assert stat.S_IMODE(real.stat().st_mode) == 0o754
    assert sorted(p.name for p in tmp_path.iterdir()) == ["real.txt", "train.py"]


def test_a_read_only_file_is_told_and_the_run_goes_on(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(BAD, encoding="utf-8")
    (tmp_path / "a.py").chmod(0o444)
    run = _scan(tmp_path, ".", "--fix")
    assert run.returncode == 2
    assert "a.py: not fixed: read-only file" in run.stderr
    assert (tmp_path / "a.py").read_text(encoding="utf-8") == BAD
    assert (tmp_path / "b.py").read_text(encoding="utf-8") == GOOD


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "train.py"
    target.write_text(BAD, encoding="utf-8")

    def fail(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        writing.write(str(target), GOOD.encode())
    assert target.read_text(encoding="utf-8") == BAD
    assert list(tmp_path.iterdir()) == [target]


def test_what_a_killed_run_left_is_swept(tmp_path: Path) -> None:
    target = tmp_path / "train.py"
    target.write_text(BAD, encoding="utf-8")
    kill = "import os, signal; from gafixer import writing; os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)"
    run = subprocess.run([sys.executable, "-c", f"{kill}; writing.write({str(target)!r}, b'new')"], check=False)
    assert run.returncode == -signal.SIGKILL
    assert target.read_text(encoding="utf-8") == BAD
    assert len(list(tmp_path.glob(".gafixer-*"))) == 1
    assert _scan(tmp_path, ".", "--fix").returncode == 0
    assert target.read_text(encoding="utf-8") == GOOD
    assert list(tmp_path.iterdir()) == [target]


def test_what_another_run_is_writing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    for target in (first, second):
        target.write_text(BAD, encoding="utf-8")
    real = os.fsync

    def meanwhile(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", real)
        writer = f"from gafixer import writing; writing.write({str(second)!r}, b'second')"
        subprocess.run([sys.executable, "-c", writer], check=True)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    writing.write(str(first), b"first")
    assert first.read_bytes() == b"first"
    assert second.read_bytes() == b"second"
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_diff_is_applied_by_git_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    target = tmp_path / "pkg" / "train.py"
    target.write_text(BAD.rstrip("\n"), encoding="utf-8")
    run = _scan(tmp_path, "pkg", "--diff")
    assert run.returncode == 1
    assert target.read_text(encoding="utf-8") == BAD.rstrip("\n")
    assert "--- a/pkg/train.py\n+++ b/pkg/train.py\n" in run.stdout
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=run.stdout.encode(), check=True)
    assert target.read_text(encoding="utf-8") == GOOD.rstrip("\n")
    assert _scan(tmp_path, "pkg", "--diff").returncode == 0


def test_options(tmp_path: Path) -> None:
    target = tmp_path / "train.py"
    target.write_text(BAD, encoding="utf-8")
    run = _scan(tmp_path, ".", "--fix", "--show-fixes", "--exit-non-zero-on-fix")
    assert run.returncode == 1
    assert "fixed train.py:40: GA103 Divide once" in run.stderr
    assert "fixed 1 finding in 1 file" in run.stderr
    assert _scan(tmp_path, ".", "--fix", "--exit-non-zero-on-fix").returncode == 0


def test_fix_only_reports_nothing(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "rules" / "GA106_aux_scale"
    (tmp_path / "by_hand.py").write_bytes((folder / "bad.py").read_bytes())
    (tmp_path / "train.py").write_text(BAD, encoding="utf-8")
    run = _scan(tmp_path, ".", "--fix-only")
    assert (run.returncode, run.stdout) == (0, "")
    assert (tmp_path / "train.py").read_text(encoding="utf-8") == GOOD


def test_helpers_may_be_imported(tmp_path: Path) -> None:
    """The file calls the package's functions, and runs to the same figures."""
    script = Path(__file__).parent / "scripts" / "uneven_rows.py"
    (tmp_path / "train.py").write_bytes(script.read_bytes())
    assert _scan(tmp_path, ".", "--fix", "--helpers", "import").returncode == 0
    made = (tmp_path / "train.py").read_text(encoding="utf-8")
    assert "from gafixer.accumulate import divide_gradients_accelerated\n" in made
    assert "def _divide_gradients" not in made
    assert _printed(tmp_path, sys.executable) == "0.0953 0.4337"


_TWO = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def _printed(folder: Path, *command: str, argument: str = "") -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    run = subprocess.run(
        [*command, "train.py", argument], cwd=folder, env=environment, check=True, capture_output=True, timeout=300
    )
    return run.stdout.decode().strip()


@pytest.mark.parametrize(
    ("command", "before", "after"),
    [
        ((sys.executable,), "0.0775 0.4514", "0.0953 0.4337"),
        (_TWO, "0.1622 0.3668", "0.2117 0.3172"),
    ],
    ids=["one_process", "two_processes"],
)
def test_accelerate_meets_the_figures_of_its_guide(
    tmp_path: Path, command: tuple[str, ...], before: str, after: str
) -> None:
    pytest.importorskip("accelerate")
    script = Path(__file__).parent / "scripts" / "uneven_rows.py"
    (tmp_path / "train.py").write_bytes(script.read_bytes())
    assert _printed(tmp_path, *command) == before
    assert _scan(tmp_path, ".", "--fix").returncode == 0
    assert _printed(tmp_path, *command) == after


@pytest.mark.parametrize(
    ("script", "two", "one"),
    [("sharded", "ddp", "alone"), ("sharded", "fsdp", "alone"), ("accelerated", "2", "4")],
    ids=["ddp", "fsdp2", "accelerate"],
)
def test_ranks_meet_one_process(tmp_path: Path, script: str, two: str, one: str) -> None:
    """Two ranks, half the steps each: the same windows, so the same weights; before the fix they differ."""
    pytest.importorskip("accelerate" if script == "accelerated" else "torch")
    (tmp_path / "train.py").write_bytes((Path(__file__).parent / "scripts" / f"{script}.py").read_bytes())
    before = _printed(tmp_path, *_TWO, argument=two)
    assert _scan(tmp_path, ".", "--fix").returncode == 0
    after = _printed(tmp_path, *_TWO, argument=two)
    alone = [float(value) for value in _printed(tmp_path, sys.executable, argument=one).split()]
    assert [float(value) for value in after.split()] == pytest.approx(alone, rel=1e-6)
    assert [float(value) for value in before.split()] != pytest.approx(alone, rel=1e-3)


def test_standard_input_comes_out_fixed(tmp_path: Path) -> None:
    run = _scan(tmp_path, "-", "--fix", stdin=BAD)
    assert (run.returncode, run.stdout) == (0, GOOD)


def test_a_comment_keeps_the_line(tmp_path: Path) -> None:
    kept = BAD.replace(
        "gradient_accumulation_steps\n    ", "gradient_accumulation_steps  # gafixer: ignore[GA103]\n    "
    )
    assert kept != BAD
    (tmp_path / "train.py").write_text(kept, encoding="utf-8")
    assert _scan(tmp_path, ".", "--fix", "--unsafe-fixes").returncode == 0
    assert (tmp_path / "train.py").read_text(encoding="utf-8") == kept


def test_edits_are_the_difference() -> None:
    for old, new in ((BAD, GOOD), ("", "a\n"), ("a", "b"), ("a\nb", "a\nb\n"), ("a\n\fb\n", "\fb\nc"), ("x\n", "")):
        assert edits.apply(old, edits.between(old, new)) == new
