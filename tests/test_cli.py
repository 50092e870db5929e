"""Every exit code, stream and flag, each in a process of its own."""

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


# arguments, exit code, text on standard output, text on standard error
ROWS: dict[str, tuple[list[str], int, str, str]] = {
    "clean": (["scan", "clean.py"], 0, "", "found nothing in 1 file,"),
    "findings": (["scan", "train.py"], 1, "train.py:2:10: GA101", "found 1 error, 1 warning (1 below the minimum"),
    "folder is the default": (["scan"], 1, "train.py:3:10: GA201", "in 2 files,"),
    "exit zero": (["scan", "-e", "train.py"], 0, "train.py:2:10: GA101", "found 1 error"),
    "concise": (
        ["scan", "train.py", "--output-format", "concise"],
        1,
        "train.py:2:10: GA101 [*] asked for: y",
        "found",
    ),
    "statistics": (["scan", "--statistics", "--min-severity", "info"], 1, "1  GA501  asked-for\n", "1 info"),
    "least severity hides": (["scan", "train.py", "--select", "GA501"], 0, "", "found nothing (1 below the minimum"),
    "least severity shows": (["scan", "--min-severity", "info", "--select", "GA501"], 1, "GA501", "found 1 info in"),
    "select a name": (["scan", "--select", "window-leaks"], 1, "GA201", "found 1 warning in 2"),
    "select a prefix": (["scan", "--select", "GA2,GA5"], 1, "GA201", "found 1 warning ("),
    "ignore": (["scan", "--ignore", "GA1", "--ignore", "GA201"], 0, "", "found nothing"),
    "narrower wins": (["scan", "--ignore", "ALL", "--extend-select", "GA101"], 1, "GA101", "found 1 error in"),
    "no such rule": (["scan", "--select", "GA110"], 2, "", "unknown rule 'GA110'; did you mean 'GA1"),
    "no such rule name": (["scan", "--ignore", "windowleaks"], 2, "", "did you mean 'window-leaks'?"),
    "no such path": (["scan", "trian.py"], 2, "", "trian.py: no such file or folder; did you mean 'train.py'?"),
    "empty path": (["scan", ""], 2, "", ": no such file or folder\n"),
    "no such option": (["scan", "--selct", "GA101"], 2, "", "--select"),
    "no such command": (["scna"], 2, "", "scna"),
    "no such severity": (["scan", "--min-severity", "loud"], 2, "", "loud"),
    "no jobs": (["scan", "--jobs", "0"], 2, "", "--jobs"),
    "exclude": (["scan", "--exclude", "train.py,dist"], 0, "", "in 1 file,"),
    "force exclude": (
        ["scan", "train.py", "clean.py", "--force-exclude", "--extend-exclude", "tr*"],
        0,
        "",
        "found nothing in 1 file",
    ),
    "named though excluded": (["scan", "train.py", "--extend-exclude", "tr*"], 1, "train.py:2:10: GA101", "in 1 file,"),
    "extend exclude": (["scan", "--extend-exclude", "tr*,clean.py"], 0, "", "no Python files under the given paths"),
    "per-file ignores": (["scan", "--per-file-ignores", "tr*:GA1,*.py:GA201"], 0, "", "found nothing (1 below"),
    "per-file ignores of nothing": (["scan", "--per-file-ignores", "tr*"], 2, "", "takes PATTERN:RULE, not 'tr*'"),
    "one setting": (["scan", "--config", "ignore = ['GA1', 'GA2']"], 0, "", "found nothing (1 below"),
    "an option is stronger": (["scan", "--config", "select = ['GA2']", "--select", "GA1"], 1, "GA101", "1 error in"),
    "one wrong setting": (["scan", "--config", "ignroe = []"], 2, "", "unknown key 'ignroe'; did you mean 'ignore'?"),
    "no setting at all": (["scan", "--config", "ignore"], 2, "", "'ignore' is neither a file nor 'key = value'"),
    "no such config": (["scan", "--config", "other.toml"], 2, "", "--config: other.toml: no such file"),
    "config of everything": (["scan", "--config", "strict.toml"], 1, "GA101", "found 1 error (2 below"),
    "two configs": (["scan", "--config", "strict.toml", "--config", "strict.toml"], 2, "", "takes one file"),
    "config though isolated": (["scan", "--isolated", "--config", "strict.toml"], 2, "", "--isolated reads no"),
    "isolated with a setting": (["scan", "--isolated", "--config", "select = ['GA2']"], 1, "GA201", "found 1 warning"),
    "settings": (["scan", "--config", "select=['GA2']", "--show-settings"], 0, 'select = ["GA201", "GA202"', ""),
    "settings of standard input": (["scan", "-", "--show-settings"], 0, "# from no configuration file\nselect =", ""),
    "settings of nothing": (["scan", "--show-settings", "--exclude", "*.py"], 0, "", "no Python files under"),
    "files": (["scan", "--show-files", "--exclude", "clean.py"], 0, "/train.py\n", ""),
    "target": (
        ["scan", "--target-transformers", ">=4.53,<5", "--show-settings"],
        0,
        'target-transformers = ">=4.53,<5"',
        "",
    ),
    "no such target": (["scan", "--target-transformers", "new"], 2, "", "must be a version or a range of versions"),
    "no such helpers": (["scan", "--helpers", "nobody"], 2, "", "nobody"),
    "comments are heeded": (["scan", "dist/silenced.py"], 0, "", "found nothing in 1 file"),
    "comments are not heeded": (
        ["scan", "dist/silenced.py", "--ignore-noqa"],
        1,
        "dist/silenced.py:1:10: GA101",
        "found 1 err",
    ),
    "unused comment": (["scan", "dist/idle.py"], 1, "dist/idle.py:1:8: GA901 [*]", "found 1 warning in 1 file"),
    "unused comment of a rule that is off": (
        ["scan", "dist/idle.py", "--ignore", "GA101"],
        0,
        "",
        "found nothing in 1 file",
    ),
    "comments": (["scan", "--add-ignore", "train.py"], 0, "", "silenced 2 findings in 1 file"),
    "comments for nothing": (["scan", "--add-ignore=why", "clean.py"], 0, "", "silenced 0 findings in 0 files"),
    "comments with two reasons": (["scan", "--add-ignore=a # b"], 2, "", "a reason in one line, without #"),
    "comments and fixes": (["scan", "--add-ignore", "--fix"], 2, "", "--add-ignore can't go with --fix"),
    "comments in standard input": (["scan", "--add-ignore", "-"], 2, "", "not standard input"),
    "no such baseline": (["scan", "--baseline", "b.json"], 2, "", "b.json: no such file; --update-baseline makes it"),
    "no baseline at all": (["scan", "--baseline", "train.py"], 2, "", "train.py: not a baseline"),
    "baseline that is a folder": (["scan", "--baseline", "."], 2, "", ".: is a directory"),
    "new baseline": (
        ["scan", "--baseline", "b.json", "--update-baseline"],
        0,
        "",
        "b.json: 2 known findings, before 0",
    ),
    "update of no baseline": (["scan", "--update-baseline"], 2, "", "--update-baseline needs --baseline FILE"),
    "update and fixes": (["scan", "--baseline", "b", "--update-baseline", "--fix"], 2, "", "can't go with --fix"),
    "unwritable baseline": (["scan", "--baseline", "no/b", "--update-baseline"], 2, "", "no/b: no such file or dir"),
    "grouped": (["scan", "--output-format", "grouped"], 1, "train.py:\n  2:10  GA101 [*] asked", "found 1 error"),
    "statistics of lines": (["scan", "--statistics", "--output-format", "json-lines"], 2, "", "use json or full"),
    "no such format": (["scan", "--output-format", "xml"], 2, "", "xml"),
    **{
        output: (["scan", "train.py", "--output-format", output], 1, out, "found 1 error, 1 warning")
        for output, out in {
            "full": "error: asked for",
            "json": '"code": "GA101"',
            "json-lines": '{"code": "GA101"',
            "sarif": '"ruleId": "GA101"',
            "github": "::error title=gafixer (GA101),file=train.py,line=2,",
            "gitlab": '"check_name": "GA101"',
            "junit": '<testcase name="GA101 ',
            "rdjson": '"value": "GA101"',
        }.items()
    },
    "named is never excluded": (["scan", "train.py", "--exclude", "train.py"], 1, "train.py:2:10", "found"),
    "unwritable output": (["scan", "-o", "no/such/folder.txt"], 2, "", "no/such/folder.txt: no such file or directory"),
    "trace": (["scan", "--trace", "train.py:2"], 0, "train.py 2\ny = 2  # GA101 error safe\n", ""),
    "trace nowhere": (
        ["scan", "--trace", "train.py"],
        2,
        "",
        "--trace takes FILE:LINE, or NOTEBOOK:cell N:LINE, not 'train.py'",
    ),
    "trace no file": (
        ["scan", "--trace", "tran.py:2"],
        2,
        "",
        "tran.py: no such file or directory; did you mean 'train",
    ),
    "filename without stdin": (["scan", "train.py", "--stdin-filename", "x.py"], 2, "", "--stdin-filename needs -"),
    "stdin with files": (["scan", "-", "train.py"], 2, "", "can't be scanned together"),
    "rule by code": (["rule", "GA101"], 0, "mean-over-steps", ""),
    "rule by name": (["rule", "window-leaks"], 0, "GA201", ""),
    "all rules": (["rule", "--all"], 0, "GA900", ""),
    "no such page": (["rule", "GA011"], 2, "", "unknown rule 'GA011'; did you mean 'GA"),
    "rule of nothing": (["rule"], 2, "", "name one rule, or use --all"),
    "rule of everything": (["rule", "GA101", "--all"], 2, "", "name one rule, or use --all"),
    "version": (["--version"], 0, f"gafixer {__version__}\n", ""),
    "help": (["--help"], 0, "scan", ""),
}


@pytest.mark.parametrize(("arguments", "code", "out", "err"), ROWS.values(), ids=ROWS)
def test_exit_code_and_streams(project: Path, arguments: list[str], code: int, out: str, err: str) -> None:
    """A row: the exit code, and each stream holds what it should and, where that is nothing, nothing."""
    run = gafixer(*arguments, cwd=project)
    assert (run.returncode, out in run.stdout, err in run.stderr) == (code, True, True), run
    assert bool(out) == bool(run.stdout)
    assert bool(err) == bool(run.stderr)


def test_errors_are_one_line(project: Path) -> None:
    """Paths, rules and settings that can't be meant: one line each, and nothing is scanned."""
    (project / "gafixer.toml").write_text("ignroe = []\n")
    for arguments in (["nowhere.py"], ["--select", "GA"], ["--select", "nothing"], []):
        run = gafixer("scan", *arguments, cwd=project)
        assert run.returncode == 2
        assert run.stderr.count("\n") == 1


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
    there.run = lambda arguments: print(arguments) or 3  # type: ignore[attr-defined]
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
        (["run", "train.py", "--help", "--", "-x"], 3, "['train.py', '--help', '--', '-x']"),
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
