"""What a repository that somebody else wrote can do to the one who scans it: nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import REAL, gafixer

#: What Python, the command and its helpers import; each would leave a file if it ran.
_MODULES = (
    "multiprocessing",
    "pickle",
    "signal",
    "struct",
    "socket",
    "tempfile",
    "json",
    "click",
    "libcst",
    "pathspec",
    "packaging",
    "rich",
    "torch",
    "transformers",
    "sitecustomize",
    "conftest",
    "setup",
)
_FAULT = (Path(__file__).parents[1] / "rules" / "GA101_mean_over_steps" / "bad.py").read_text()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A script with a fault that a fix mends, among modules that leave a trace when they run."""
    folder = tmp_path / "repository"
    folder.mkdir()
    for name in _MODULES:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    (folder / "train.py").write_text("import torch, transformers, conftest\n" + _FAULT)
    return folder


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("asked", [(), ("--fix", "--unsafe-fixes"), ("--diff",)])
def test_nothing_of_it_runs(repository: Path, tmp_path: Path, jobs: str, asked: tuple[str, ...]) -> None:
    """Neither what a script imports, nor what has the name of a module that the command needs."""
    (tmp_path / "start.py").write_text("from gafixer.cli import main\nif __name__ == '__main__':\n    main()\n")
    for command in (REAL, (sys.executable, str(tmp_path / "start.py"))):
        run = gafixer("scan", ".", "--isolated", "--jobs", jobs, *asked, cwd=repository, command=command)
        assert run.returncode in {0, 1}, run.stderr
        assert "ended" not in run.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("key", ["output-file", "cache-dir", "baseline", "fix", "jobs", "output-format"])
def test_its_configuration_names_no_place_to_write(repository: Path, tmp_path: Path, key: str) -> None:
    """There is no such key, so that scanning is reading."""
    (repository / "gafixer.toml").write_text(f'{key} = "{tmp_path / "written"}"\n')
    run = gafixer("scan", ".", cwd=repository, command=REAL)
    assert run.returncode == 2
    assert key in run.stderr
    assert not (tmp_path / "written").exists()


def test_fixes_stay_in_the_tree(repository: Path, tmp_path: Path) -> None:
    """A link to a file or folder elsewhere is no way to have that changed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.py").write_text(_FAULT)
    (repository / "linked.py").symlink_to(outside / "mine.py")
    (repository / "folder").symlink_to(outside)
    before = (repository / "train.py").read_text()
    gafixer("scan", ".", "--isolated", "--fix", "--unsafe-fixes", cwd=repository, command=REAL)
    assert (repository / "train.py").read_text() != before
    assert (outside / "mine.py").read_text() == _FAULT


def test_a_module_outside_is_no_evidence_that_is_changed(repository: Path, tmp_path: Path) -> None:
    """What is imported over a link may be read; it is never written, and a loop of links ends."""
    (tmp_path / "losses.py").write_text("def loss(x):\n    return x.mean()\n")
    (repository / "losses.py").symlink_to(tmp_path / "losses.py")
    (repository / "round").symlink_to(repository)
    run = gafixer("scan", ".", "--isolated", "--fix", cwd=repository, command=REAL)
    assert run.returncode in {0, 1}
    assert (tmp_path / "losses.py").read_text() == "def loss(x):\n    return x.mean()\n"


_OFFLINE = """
import socket, sys
def refuse(*_, **__):
    raise SystemExit('the network is asked')
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from gafixer.cli import main
sys.argv = ['gafixer', *sys.argv[1:]]
main()
"""


def test_a_scan_asks_no_network(repository: Path, tmp_path: Path) -> None:
    """Not in any format."""
    (tmp_path / "start.py").write_text(_OFFLINE)
    for output in ("full", "json", "sarif", "junit"):
        command = [sys.executable, str(tmp_path / "start.py"), "scan", ".", "--isolated", "--output-format", output]
        run = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
        assert run.returncode == 1, run.stderr
