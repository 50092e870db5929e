"""Run a script or a module with the patch on.

`gafixer run train.py ARGS...`, `torchrun -m gafixer.run train.py ARGS...`.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

USAGE = "usage: gafixer run (SCRIPT | -m MODULE) [ARGS...]"


def main(argv: Sequence[str] | None = None) -> int:
    """Patch, then run what `argv` names as `__main__`, as `python SCRIPT` or `python -m MODULE` would.

    Everything after the name is the script's own. Returns 2, with a message on stderr, where there is nothing to run;
    what the script raises, `SystemExit` too, passes through.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    by_module = words[:1] == ["-m"]
    target, rest = (words[1:2], words[2:]) if by_module else (words[:1], words[1:])
    if not target or (not by_module and target[0].startswith("-")):
        return _refuse(USAGE)
    (name,) = target
    if not by_module and not Path(name).exists():
        return _refuse(f"gafixer run: no such file: {name}")
    importlib.import_module("gafixer.patch")
    sys.argv = [name, *rest]
    if by_module:
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(name).resolve().parent))
        runpy.run_path(name, run_name="__main__")
    return 0


def _refuse(message: str) -> int:
    print(message, file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
