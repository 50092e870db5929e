"""Runs the command in a process of its own, as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FAKE", "REAL", "gafixer"]

#: The command as it is installed, and with an analysis that finds what the scanned text asks for.
REAL = (sys.executable, "-m", "gafixer")
FAKE = (sys.executable, str(Path(__file__).with_name("fake_engine.py")))


def gafixer(
    *arguments: str,
    cwd: Path,
    command: tuple[str, ...] = FAKE,
    stdin: str | bytes = b"",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run it in `cwd`; what it prints is decoded strictly, so that a test also fails for bytes that are no text."""
    run = subprocess.run(
        [*command, *arguments],
        cwd=cwd,
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        env=_environment() | dict(env or {}),
        capture_output=True,
        timeout=120,
        check=False,
    )
    out, err = run.stdout.decode(), run.stderr.decode()
    assert "Traceback" not in err or "-v" in arguments or (env or {}).get("GAFIXER_DEBUG"), err
    return subprocess.CompletedProcess(run.args, run.returncode, out, err)


def _environment() -> dict[str, str]:
    """Our environment without what would colour or configure the command, and without a place for a cache."""
    ours = {"NO_COLOR", "FORCE_COLOR", "GAFIXER_DEBUG"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return kept | {"PYTHONUTF8": "1", "GAFIXER_CACHE_DIR": os.devnull}
