"""Every exit code, stream and flag of the command line: a table, each row a process of its own."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

import click
import pytest

from gafixer import __version__, cli
from gafixer.parity.command import verify
from tests.command import FAKE, REAL, gafixer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOOP = """\
import torch.nn.functional as F

def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)
        (loss / n).backward()
        if (i + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
#: The same with a loss whose mean is taken elsewhere: its fix assumes something.
ASSUMED = LOOP.replace("import torch", "from lib.losses import masked_nll\nimport torch").replace(
    "F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)", "masked_nll(model(x), y)"
)
DECLARED = ("--config", "losses.masked_nll.ignored-label = 0")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A clean file, and one with an error that has a safe fix, a warning and an info; what is named lies in dist/."""
    for name, text in {
        "clean.py": "x = 1\n",
        "train.py": "x = 1\ny = 2  # GA101 error safe\nz = 3  # GA201 warning\nw = 4  # GA501 info\n",
        "strict.toml": 'min-severity = "error"\n',
        "dist/silenced.py": "a = 1  # GA101 error  # gafixer: ignore[GA101] meant\n",
        "dist/idle.py": "b = 1  # gafixer: ignore[GA101] meant\n",
        "dist/crash.py": "crash",
        "dist/broken.py": "x = (\n",
        "dist/loop.py": LOOP,
        "dist/assumed.py": ASSUMED,
        "dist/seven.py": "import sys\nprint(sys.argv[1:])\nsys.exit(7)\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


# arguments, exit code, text on standard output, text on standard error
Row = tuple[list[str], int, str, str]

#: The analysis finds what the text asks for.
ROWS: dict[str, Row] = {
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
    "internal error": (["scan", "dist/crash.py"], 2, "", "dist/crash.py: internal error: RecursionError: asked to"),
    "internal error at length": (["scan", "dist/crash.py", "-v"], 2, "", "Traceback (most recent call last)"),
    "jobs": (["scan", "-j", "2"], 1, "train.py:2:10: GA101", "in 2 files,"),
    "no cache": (["scan", "--no-cache"], 1, "train.py:2:10: GA101", "in 2 files,"),
    "cache": (["scan", "--cache-dir", "kept"], 1, "train.py:2:10: GA101", "in 2 files,"),
    "output file": (["scan", "-o", "out.txt"], 1, "", "found 1 error, 1 warning"),
    "standard input": (["scan", "-", "--stdin-filename", "x.py"], 1, "x.py:1:3: GA101", "found 1 error in 1 file"),
    "standard input as it is": (["scan", "-"], 1, "-:1:3: GA101", "found 1 error in 1 file"),
    "no unsafe fixes": (["scan", "--no-unsafe-fixes", "--show-settings"], 0, "unsafe-fixes = false", ""),
    "short help": (["scan", "-h"], 0, "--output-format", ""),
    "help of a rule's page": (["rule", "--help"], 0, "--all", ""),
    "run": (["run", "dist/seven.py", "--fix", "a"], 7, "['--fix', 'a']", ""),
    "run a module": (["run", "-m", "dist.seven"], 7, "[]", ""),
    "run nothing": (["run"], 2, "", "usage: gafixer run (SCRIPT | -m MODULE) [ARGS...]"),
    "run what is not there": (["run", "sevn.py"], 2, "", "gafixer run: no such file: sevn.py"),
    "help of verify": (["verify", "--help"], 0, "--head", ""),
    **{
        f"verify {flag}": (
            ["verify", flag, *value, *([] if said else ["--jobs", "0"])],
            2,
            "",
            said or "'-j' / '--jobs': 0 is not",
        )
        for flag, value, said in (
            ("--head", ["("], "not a regular expression"),
            ("--task", ["knitting"], "knitting"),
            ("--no-patch", [], ""),
            ("--device", ["tpu"], "'tpu' is not one of 'auto', 'cpu', 'cuda'"),
            ("--dtype", ["float8"], "'float8' is not one of"),
            ("--compile", [], ""),
            ("--processes", ["0"], "0 is not in the range"),
            ("--steps", ["0"], "0 is not in the range"),
            ("--timeout", ["0"], "0.0 is not in the range"),
            ("--output-format", ["xml"], "'xml' is not one of"),
            ("--report", ["r.html"], ""),
            ("--write-table", ["t.json"], ""),
        )
    },
}

#: The real analysis, on files that it can mend.
FIXED: dict[str, Row] = {
    "a fault": (["scan", "dist/loop.py"], 1, "dist/loop.py:6:10: GA101 [*]", "found 1 error ("),
    "no Python": (["scan", "dist/broken.py"], 1, "dist/broken.py:1:5: GA900", "found 1 error in 1 file"),
    "fix": (["scan", "dist/loop.py", "--fix"], 0, "", "fixed 1 finding in 1 file"),
    "fix is told": (["scan", "dist/loop.py", "--fix", "--show-fixes"], 0, "", "fixed dist/loop.py:6: GA101 Divide"),
    "fix fails": (["scan", "dist/loop.py", "--fix", "--exit-non-zero-on-fix"], 1, "", "fixed 1 finding in 1 file"),
    "fix only": (["scan", "dist/loop.py", "dist/assumed.py", *DECLARED, "--fix-only"], 0, "", "fixed 1 finding in 1"),
    "fix of what is clean": (["scan", "clean.py", "--fix", "--exit-non-zero-on-fix"], 0, "", "found nothing"),
    "diff": (["scan", "dist/loop.py", "--diff"], 1, "+++ b/dist/loop.py\n", "would fix 1 finding in 1 file"),
    "diff of what is clean": (["scan", "clean.py", "--diff"], 0, "", ""),
    "diff may be wanted": (["scan", "dist/loop.py", "--diff", "-e"], 0, "+++ b/dist/loop.py\n", "would fix"),
    "a fix that assumes": (["scan", "dist/assumed.py", *DECLARED, "--fix"], 1, "GA101 mean-over-steps", "found 1 err"),
    "a fix that may assume": (["scan", "dist/assumed.py", *DECLARED, "--fix", "--unsafe-fixes"], 0, "", "fixed 1 find"),
    "fix with an import": (["scan", "dist/loop.py", "--diff", "--helpers", "import"], 1, "gafixer.accumulate", "would"),
    "fix another way": (
        ["scan", "dist/loop.py", "--fix", "--strategy", "read-ahead"],
        1,
        "which the loader brings along",
        "found 1 error",
    ),
    "a loop of Accelerate": (
        ["scan", "dist/loop.py", "--fix", "--to", "accelerate"],
        0,
        "",
        "dist/loop.py:6: turned into a loop of Accelerate",
    ),
    "no loop of Accelerate": (
        ["scan", "dist/assumed.py", "--fix", "--to", "accelerate"],
        1,
        "",
        "dist/assumed.py:7: no loop of Accelerate: a part of the loss could not be followed",
    ),
    "diff to Accelerate": (
        ["scan", "dist/loop.py", "--diff", "--to", "accelerate"],
        1,
        "+from accelerate import Accelerator\n",
        "dist/loop.py:6: would turn into a loop of Accelerate",
    ),
    "to Accelerate without a fix": (["scan", "--to", "accelerate"], 2, "", "rewrites loops: it needs --fix, or --diff"),
    "fix of a comment": (["scan", "dist/idle.py", "--fix"], 0, "", "fixed 1 finding in 1 file"),
}


@pytest.mark.parametrize(("arguments", "code", "out", "err"), ROWS.values(), ids=ROWS)
def test_exit_code_and_streams(project: Path, arguments: list[str], code: int, out: str, err: str) -> None:
    """A row: the exit code, and each stream holds what it should and, where that is nothing, nothing."""
    _check(project, FAKE, (arguments, code, out, err))


@pytest.mark.parametrize(("arguments", "code", "out", "err"), FIXED.values(), ids=FIXED)
def test_fixes(project: Path, arguments: list[str], code: int, out: str, err: str) -> None:
    """The same for what changes files."""
    _check(project, REAL, (arguments, code, out, err))


def _check(project: Path, command: tuple[str, ...], row: Row) -> None:
    arguments, code, out, err = row
    run = gafixer(*arguments, cwd=project, command=command, stdin="# GA101 error")
    assert (run.returncode, out in run.stdout, err in run.stderr) == (code, True, True), run
    assert bool(out) == bool(run.stdout)
    assert bool(err) == bool(run.stderr)


def _flags(command: click.Command) -> Iterator[frozenset[str]]:
    """The spellings of each option, apart from help."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield frozenset((*parameter.opts, *parameter.secondary_opts))


def test_every_flag_has_a_row() -> None:
    """Of every command; an option that somebody adds is missed here."""
    spoken = {word.partition("=")[0] for words, *_ in (*ROWS.values(), *FIXED.values()) for word in words}
    commands = [cli.cli, cli.scan, cli.rule, verify]
    missing = [flags for command in commands for flags in _flags(command) if not flags & spoken]
    assert missing == []
    assert {"scan", "rule", "verify", "run", "--help", "-h"} <= spoken


def test_every_exit_code_has_a_row() -> None:
    """Clean, found, wrong; a script's own is handed on."""
    assert {code for _, code, *_ in (*ROWS.values(), *FIXED.values())} == {0, 1, 2, 7}


def test_interrupted(project: Path) -> None:
    """Ctrl-C ends it with 130 and no word, but for the line end that click puts behind `^C`."""
    (project / "wait.py").write_text("wait")
    command = subprocess.Popen(
        [*FAKE, "scan", "wait.py"], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with command:
        assert command.stdout is not None
        assert command.stdout.readline() == "here\n"
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=60)
    assert (command.returncode, out, err) == (130, "", "\n")
