"""`python -m tests.killed [--times 500] TREE`: what SIGKILL at any moment of `--fix` leaves of a copied tree.

Every file has to be the old one or the new one, and the next run, which is let finish, has to leave all files new and
nothing of its own beside them. Prints in how many runs something had been written when the kill came; exit 1 when a
file is neither.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from gafixer.cache import place

_FIX = (sys.executable, "-m", "gafixer", "scan", ".", "--fix-only", "--unsafe-fixes", "--isolated", "--jobs", "1")

_UNFINISHED = ".gafixer-write-"

Content = dict[str, bytes]


def _content(folder: Path) -> Content:
    """All files but the whole ones of the cache."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and (place.NAME not in path.parts or path.name.startswith(_UNFINISHED))
    }


def _restore(folder: Path, content: Content) -> None:
    for name, data in content.items():
        (folder / name).write_bytes(data)


def _killed(folder: Path, seconds: float) -> None:
    """Kill a run after so many seconds."""
    with subprocess.Popen(_FIX, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        try:
            run.wait(seconds)
        except subprocess.TimeoutExpired:
            run.kill()


def _killed_writing(folder: Path, nth: int) -> None:
    """Kill a run when its nth unfinished file is seen, as far as polling sees them."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    seen: set[str] = set()
    with subprocess.Popen(_FIX, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        while run.poll() is None:
            seen |= {p.name for home in folders for p in home.iterdir() if p.name.startswith(_UNFINISHED)}
            if len(seen) >= nth:
                run.kill()


def _whole(folder: Path) -> float:
    """Let a run finish; its seconds."""
    begin = time.perf_counter()
    subprocess.run(_FIX, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    return time.perf_counter() - begin


@click.command()
@click.argument("tree", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--times", type=click.IntRange(min=1), default=500, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def main(tree: Path, times: int, seed: int) -> None:
    """Kill `gafixer scan --fix` on copies of TREE, at moments drawn over a whole run, and in mid-write in turns."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "tree"
        shutil.copytree(tree, folder)
        for path in folder.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        old = _content(folder)
        seconds = _whole(folder)
        new = _content(folder)
        if (changed := sum(old[name] != new[name] for name in old)) == 0 or old.keys() != new.keys():
            raise click.ClickException("nothing to fix in this tree, or files that came or went")
        partly = strays = 0
        moments = random.Random(seed)
        for number in range(times):
            _restore(folder, old)
            if number % 2:
                _killed_writing(folder, moments.randint(1, changed))
            else:
                _killed(folder, moments.uniform(0, seconds))
            left = _content(folder)
            strays += bool(left.keys() - old.keys())
            partly += any(left[name] != old[name] for name in old)
            if torn := [name for name in old if left.get(name) not in (old[name], new[name])]:
                raise click.ClickException(f"neither old nor new: {torn}")
            if left.keys() - old.keys():
                _whole(folder)
                if _content(folder) != new:
                    raise click.ClickException("the next run left something behind")
        click.echo(
            f"{times} kills within {seconds:.2f} s, {changed} files to fix: {partly} came after the first write, "
            f"{strays} left an unfinished file, which the next run swept; every file was the old or the new one"
        )


if __name__ == "__main__":
    main()
