"""Starts a module of the tests as one process, or as the ranks of a group, and reads the JSON that it prints last."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["told"]

ROOT = Path(__file__).parents[2]


def told(
    arguments: Sequence[str], given: object, processes: int = 1, python: str = sys.executable, paths: Sequence[str] = ()
) -> Any:
    """What ``python -m arguments`` prints when it gets `given` as JSON; `paths` come before its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*paths, str(ROOT)]),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        group = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    started = []
    for rank in range(processes):
        own = {**group, "RANK": str(rank), "LOCAL_RANK": str(rank)} if processes > 1 else {}
        command = [python, "-W", "ignore", "-m", *arguments]
        started.append(
            subprocess.Popen(
                command, env={**environment, **own}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
            )
        )
    for process in started:
        assert process.stdin is not None
        process.stdin.write(json.dumps(given))
        process.stdin.close()
    said = []
    for process in started:
        assert process.stdout is not None
        said.append(process.stdout.read())
        process.stdout.close()
    assert [process.wait() for process in started] == [0] * processes
    return json.loads(said[0].splitlines()[-1])
