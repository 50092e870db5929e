"""The prefilter lets through every file of which something is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from gafixer.analysis import prefilter
from gafixer.analysis.build import sites
from gafixer.analysis.project import MemoryProject
from gafixer.analysis.source import Module
from tests.analysis.spellings import RIGHT, WRONG
from tests.analysis.windows import GUARDED

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "rules").glob("GA*/bad.py")) + sorted((ROOT / "fixtures").glob("*/**/*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-3:]))
def test_files_with_a_site_pass(path: Path) -> None:
    """A site is a backward call, of whatever spelling; every faulty script has one."""
    source = path.read_bytes()
    if path.parts[-3] == "rules":
        assert prefilter.may_matter(source)
    if "unreadable" in path.parts:
        return
    module = Module.read("m", path.name, source, whole=True)
    if sites(module, MemoryProject({})):
        assert prefilter.may_matter(source)


def test_snippets_pass() -> None:
    """But those whose backward call is somebody else's."""
    sources = [snippet.source for snippet in (*WRONG, *RIGHT)] + [loop.source for loop in GUARDED]
    for source in sources:
        assert prefilter.may_matter(source.encode()) or "scaler(" in source, source


@pytest.mark.parametrize(
    ("source", "passes"),
    [
        (b"", False),
        (b"loss.backward()", True),
        (b"loss.backward", True),
        (b"self.manual_backward(loss)", True),
        (b"fabric.backward(loss)", True),
        (b"torch.autograd.backward(loss)", True),
        (b"def compute_loss(self, model, inputs, num_items_in_batch=None): ...", True),
        (b"backwards_compatible = 1", False),
        (b"# go backwards", False),
        (b"# kept for backward compatibility", False),
        (b"help='steps between two backward passes'", False),
        (b"getattr(loss, 'backward')()", True),
        (b"loss = trainer.training_step(model, batch)", True),
        (b"backwardness\nloss.backward()", True),
        (b"loss.mean()", False),
        ("損失.backward()".encode(), True),
        (b"\xff\xfe", False),
    ],
)
def test_words(source: bytes, *, passes: bool) -> None:
    """The words as such, not parts of longer ones."""
    assert prefilter.may_matter(source) is passes
