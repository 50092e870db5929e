"""What the command does, in a process of its own; its exit codes and flags are a table in test_exit_codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from typing import TYPE_CHECKING

import click
import pytest

from gafixer import __version__, cli
from tests.command import REAL, gafixer

if TYPE_CHECKING:
    from pathlib import Path

BAD = "x = 1\ny = 2  # GA101 error safe\n"
GOOD = "x = 1\n"
JSON = ("--output-format", "json")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A clean file, and one with an error that has a safe fix, a warning and an info."""
    (tmp_path / "clean.py").write_text(GOOD)
    (tmp_path / "dist").mkdir()  # passed over unless a file in it is named
    (tmp_path / "dist" / "silenced.py").write_text("a = 1  # GA101 error  # gafixer: ignore[GA101] meant\n")
    (tmp_path / "dist" / "idle.py").write_text("b = 1  # gafixer: ignore[GA101] meant\n")
    (tmp_path / "strict.toml").write_text('min-severity = "error"\n')
    (tmp_path / "train.py").write_text(f"{BAD}z = 3  # GA201 warning\nw = 4  # GA501 info\n")
    return tmp_path


def codes(run: subprocess.CompletedProcess[str]) -> list[str]:
    """The codes in a JSON document on standard output."""
    return [finding["code"] for finding in json.loads(run.stdout)["findings"]]


def test_errors_are_one_line(project: Path) -> None:
    """Paths, rules and settings that can't be meant: one line each, and nothing is scanned."""
    (project / "gafixer.toml").write_text("ignroe = []\n")
    for arguments in (["nowhere.py"], ["--select", "GA"], ["--select", "nothing"], []):
        run = gafixer("scan", *arguments, cwd=project)
        assert run.returncode == 2
        assert run.stderr.count("\n") == 1


_USER = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

def main(rows):
    arguments = TrainingArguments("out", gradient_accumulation_steps=4)
    Trainer(AutoModelForCausalLM.from_pretrained("x"), arguments, train_dataset=rows).train()
"""


def test_files_that_speak_of_one_place(tmp_path: Path) -> None:
    """Of their findings one is told, and it is the same whichever of them is scanned first."""
    (tmp_path / "requirements.txt").write_text("transformers==4.40.0\n")
    for name in ("one.py", "other.py"):
        (tmp_path / name).write_text(_USER)
    orders = (["one.py", "other.py"], ["other.py", "one.py"])
    runs = [gafixer("scan", *JSON, *names, cwd=tmp_path, command=REAL) for names in orders]
    assert codes(runs[0]) == ["GA305"]
    assert runs[0].stdout == runs[1].stdout
    assert "one.py" in runs[0].stdout


def test_json(project: Path) -> None:
    """The document of design version 1, field by field."""
    run = gafixer("scan", "--output-format", "json", "train.py", "--select", "GA101", cwd=project)
    assert run.returncode == 1
    assert json.loads(run.stdout) == {
        "version": 1,
        "gafixer": __version__,
        "findings": [
            {
                "code": "GA101",
                "name": "asked-for",
                "message": "asked for: y = 2  # GA101 error safe",
                "severity": "error",
                "confidence": "high",
                "filename": "train.py",
                "cell": None,
                "location": {"row": 2, "column": 10},
                "end_location": {"row": 2, "column": 26},
                "related": [
                    {
                        "role": "evidence",
                        "filename": "train.py",
                        "location": {"row": 1, "column": 1},
                        "message": "the first line",
                    }
                ],
                "fix": {"applicability": "safe", "message": "mend it", "edits": []},
                "url": "https://github.com/gafixer/gafixer/blob/main/rules/GA101_mean_over_steps/README.md",
            }
        ],
    }


def test_json_statistics(project: Path) -> None:
    """Counts are data when the format is data."""
    run = gafixer("scan", "--output-format", "json", "--statistics", cwd=project)
    assert json.loads(run.stdout)["statistics"] == [
        {"code": "GA101", "name": "asked-for", "count": 1},
        {"code": "GA201", "name": "asked-for", "count": 1},
    ]


def test_filenames_are_relative_to_the_working_directory(project: Path) -> None:
    """However the path was given."""
    (project / "deep").mkdir()
    for cwd, path, name in [
        (project, "./train.py", "train.py"),
        (project, str(project / "train.py"), "train.py"),
        (project / "deep", "../train.py", "../train.py"),
        (project / "deep", str(project), "../train.py"),
    ]:
        run = gafixer("scan", path, "--output-format", "json", cwd=cwd)
        assert {finding["filename"] for finding in json.loads(run.stdout)["findings"]} == {name}


def test_output_file(project: Path) -> None:
    """The findings go there, the summary stays on standard error."""
    run = gafixer("scan", "-o", "out.txt", "--output-format", "concise", cwd=project)
    assert (run.returncode, run.stdout) == (1, "")
    assert "GA101 [*]" in (project / "out.txt").read_text()


def test_stdin(project: Path) -> None:
    """Standard input is a file of the given name."""
    run = gafixer("scan", "-", "--stdin-filename", "sub/x.py", cwd=project, stdin=BAD)
    assert (run.returncode, "sub/x.py:2:10: GA101" in run.stdout) == (1, True)
    assert "2 | y = 2" in run.stdout
    assert gafixer("scan", "-", cwd=project, stdin=GOOD).returncode == 0
    assert gafixer("scan", "-", cwd=project, stdin=b"\xff\x00").returncode == 0


def test_internal_error_is_one_line_and_the_run_goes_on(project: Path) -> None:
    """The file is named; the traceback is there for who asks."""
    (project / "bad.py").write_text("crash")
    run = gafixer("scan", cwd=project)
    assert run.returncode == 2
    assert "bad.py: internal error: RecursionError: asked to crash\n" in run.stderr
    assert "train.py:2:10: GA101" in run.stdout
    assert gafixer("scan", "--exit-zero", cwd=project).returncode == 2
    assert "Traceback" in gafixer("scan", "-v", cwd=project).stderr
    assert "Traceback" in gafixer("scan", cwd=project, env={"GAFIXER_DEBUG": "1"}).stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(project: Path) -> None:
    """One line, exit 2, the run goes on."""
    (project / "secret.py").touch(mode=0o000)
    run = gafixer("scan", cwd=project)
    assert (run.returncode, "secret.py: permission denied\n" in run.stderr) == (2, True)
    assert "train.py:2:10: GA101" in run.stdout


def test_pipe_is_refused(project: Path) -> None:
    """A named pipe never blocks; found in a folder it is passed over."""
    os.mkfifo(project / "pipe.py")
    run = gafixer("scan", "pipe.py", cwd=project)
    assert (run.returncode, "pipe.py: not a regular file\n" in run.stderr) == (2, True)
    assert "in 2 files," in gafixer("scan", cwd=project).stderr


def test_same_output_whatever_the_jobs(tmp_path: Path) -> None:
    """Order and text of the findings do not depend on who found them."""
    for number in range(150):
        (tmp_path / f"f{number}.py").write_text(f"# GA101 error\n# GA201 warning {number}\n")
    runs = [gafixer("scan", "--jobs", jobs, "--output-format", "json", cwd=tmp_path) for jobs in ("1", "2", "3")]
    assert len(codes(runs[0])) == 300
    assert runs[0].stdout == runs[1].stdout == runs[2].stdout


def test_a_process_that_dies_is_told(tmp_path: Path) -> None:
    """Never a traceback, never a silent loss: the file is named, all others are scanned."""
    for number in range(40):
        (tmp_path / f"f{number:02}.py").write_text("die" if number == 2 else "# GA101 error\n")
    # The first files are taken by another process: this one begins at the other end.
    run = gafixer("scan", "--jobs", "2", "--output-format", "json", cwd=tmp_path)
    assert (run.returncode, len(codes(run))) == (2, 39)
    assert "f02.py: the process that scanned it was ended\n" in run.stderr


def test_settings_file(project: Path) -> None:
    """Nearest wins; --isolated reads none."""
    (project / "gafixer.toml").write_text('ignore = ["GA1"]\n')
    (project / "sub").mkdir()
    (project / "sub" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert codes(gafixer("scan", "--output-format", "json", cwd=project)) == ["GA201"]
    assert codes(gafixer("scan", "..", "--output-format", "json", cwd=project / "sub")) == ["GA201"]
    assert codes(gafixer("scan", "--isolated", "--output-format", "json", cwd=project)) == ["GA101", "GA201"]
    (project / "sub" / "pyproject.toml").write_text('[tool.gafixer]\nmin-severity = "error"\n')
    (project / "sub" / "train.py").write_text(BAD)
    assert codes(gafixer("scan", "..", "--output-format", "json", cwd=project / "sub")) == ["GA101", "GA201"]
    assert codes(gafixer("scan", "..", "--config", "../gafixer.toml", *JSON, cwd=project / "sub")) == ["GA201"]


@pytest.mark.parametrize("arguments", [["--help"], ["scan", "--help"], ["scan", "clean.py"], ["scan", "unwanted.py"]])
def test_nothing_heavy_is_imported(tmp_path: Path, arguments: list[str]) -> None:
    """Help, and a scan of files that the prefilter rejects."""
    (tmp_path / "clean.py").write_text(GOOD)
    (tmp_path / "unwanted.py").write_text("unwanted = 1\n")
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", *REAL[1:], *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in shown.splitlines() if "|" in line}
    assert "gafixer" in imported
    assert not imported & {
        "libcst",
        "torch",
        "transformers",
        "accelerate",
        "numpy",
        "rich",
        "pathspec",
        "multiprocessing",
    }


def test_forwarded_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands of other modules get all their arguments, are listed unimported, and decide the exit code."""
    there = types.ModuleType("there")
    there.verify = click.Command("verify", callback=lambda head: click.get_current_context().exit(len(head)))  # type: ignore[attr-defined]
    there.verify.params.append(click.Option(["--head"]))
    monkeypatch.setattr(cli, "_exists", lambda module: True)
    monkeypatch.setattr(cli, "_ELSEWHERE", {name: ("there", name, f"Does {name}.") for name in ("verify", "run")})
    monkeypatch.setattr(sys, "argv", ["gafixer", "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "Does verify." in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "there", there)
    for arguments, code, out in [
        (["verify", "--head", "GPT2"], 4, ""),
        (["verify", "--help"], 0, "Usage: gafixer verify [OPTIONS]"),
        (["verify", "--hade", "x"], 2, ""),
    ]:
        monkeypatch.setattr(sys, "argv", ["gafixer", *arguments])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        assert (caught.value.code, out in capsys.readouterr().out) == (code, True)


def test_a_named_file_has_to_be_python(tmp_path: Path) -> None:
    """Also where nothing in it may train; in a folder such a file is passed over."""
    (tmp_path / "broken.py").write_text("x = (1,\ny = 2\n")
    (tmp_path / "whole.py").write_text("x = 1\n")
    named = gafixer(
        "scan", "broken.py", "whole.py", "--isolated", "--output-format", "concise", cwd=tmp_path, command=REAL
    )
    assert named.returncode == 1
    assert [line.split(" ")[0:2] for line in named.stdout.splitlines()] == [["broken.py:1:5:", "GA900"]]
    assert gafixer("scan", ".", "--isolated", cwd=tmp_path, command=REAL).returncode == 0
