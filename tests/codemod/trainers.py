"""Mends overrides and heads for a release, and runs them under it: what tests and the matrix command share."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gafixer import engine, rulebook
from gafixer.analysis.project import MemoryProject
from gafixer.findings import Applicability, Finding, Severity
from gafixer.settings import Settings
from tests.codemod.overrides import OVERRIDES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["FAULT", "PARITY", "STEPS", "mended", "run"]

ROOT = Path(__file__).parents[2]
#: Relative errors in float64; the optimizer steps of a run.
PARITY, FAULT, STEPS = 1e-6, 0.01, 2


def mended(source: str, release: str, *, unsafe: bool = True) -> str:
    """The source after its fixes for a release of Transformers."""

    def accept(finding: Finding, now: bytes) -> bool:
        del now
        assert finding.fix is not None
        allowed = {Applicability.SAFE, Applicability.UNSAFE} if unsafe else {Applicability.SAFE}
        return finding.fix.applicability in allowed

    settings = Settings(frozenset(rulebook.catalogue()), Severity.WARNING, target_transformers=f"=={release}")
    made = engine.repair(source.encode(), "train.py", MemoryProject({}), settings, accept)
    return source if made is None else made.new


def run(
    sources: Mapping[str, str],
    processes: int = 1,
    python: str = sys.executable,
    paths: Iterable[str] = (),
) -> dict[str, dict[str, Any]]:
    """What `tests.codemod.trainer_run` tells of modules named as in `OVERRIDES`."""
    jobs = [{"name": n, "source": s, "reference": OVERRIDES[n].reference} for n, s in sources.items()]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*paths, str(ROOT)]),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    started = []
    for rank in range(processes):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes), "MASTER_PORT": port}
        own["MASTER_ADDR"] = "127.0.0.1"
        started.append(
            subprocess.Popen(
                [python, "-W", "ignore", "-m", "tests.codemod.trainer_run"],
                env={**environment, **(own if processes > 1 else {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
        )
    text = json.dumps(jobs)
    for process in started:
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
    assert started[0].stdout is not None
    said = started[0].stdout.read()
    codes = [process.wait() for process in started]
    for process in started:
        assert process.stdout is not None
        process.stdout.close()
    assert codes == [0] * processes
    told: dict[str, dict[str, Any]] = json.loads(said.splitlines()[-1])
    return told
