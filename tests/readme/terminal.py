"""What a scan looks like: the real output of the command as a picture."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

__all__ = ["picture"]

_WIDTH = 132
_SCRIPT = Path(__file__).parents[2] / "rules" / "GA101_mean_over_steps" / "bad.py"
_TYPED = "gafixer scan train.py"
#: As rich has it, but without fonts that a reader's browser would fetch.
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>gafixer scan train.py</title>
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def picture() -> str:
    """An SVG of a terminal in which the faulty script of GA101 is scanned."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO())
    console.print(Text(f"$ {_TYPED}", style="bold"))
    console.print(Text.from_ansi(_output().rstrip("\n")))
    made = console.export_svg(title="gafixer", code_format=_FORMAT, unique_id="scan")
    return "\n".join(line.rstrip() for line in made.split("\n"))


def _output() -> str:
    """Standard output of the command, in colour."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_bytes(_SCRIPT.read_bytes())
        command = [sys.executable, "-m", "gafixer", *_TYPED.split()[1:], "--isolated"]
        environment = {"FORCE_COLOR": "1", "PYTHONUTF8": "1"}
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if run.returncode != 1:
        raise RuntimeError(f"exit code {run.returncode}: {run.stderr}")
    return run.stdout
