"""The number of steps outside the code: which files say it, to whom, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gafixer import engine
from gafixer.analysis import outside
from gafixer.analysis.checkout import FileProject
from gafixer.analysis.outside import Source
from gafixer.findings import Role
from tests.analysis.scanning import ALL

if TYPE_CHECKING:
    from pathlib import Path

STEPS = "gradient_accumulation_steps"
_CONFIGURATION = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  gradient_accumulation_steps: 4"
WRITTEN = [
    ("run.sh", "python t.py --accum-steps=16", "accum_steps", 16, Source.FILE),
    ("run.sh", "python t.py --gradient_accumulation_steps 8 \\\n", STEPS, 8, Source.FILE),
    ("run.sh", "accelerate launch --gradient_accumulation_steps 4 t.py", STEPS, 4, Source.ACCELERATE),
    ("run.sh", "accelerate launch t.py --gradient_accumulation_steps 4", STEPS, 4, Source.FILE),
    ("run.sh", "accelerate launch \\\n --gradient_accumulation_steps=4 \\\n t.py", STEPS, 4, Source.ACCELERATE),
    (".env", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS=2", STEPS, 2, Source.ACCELERATE),
    ("Makefile", "train:\n\tpython t.py --grad_accum 8", "grad_accum", 8, Source.FILE),
    ("accelerate.yaml", _CONFIGURATION, STEPS, 4, Source.ACCELERATE),
    ("lightning.yaml", "trainer:\n  accumulate_grad_batches: 4", "accumulate_grad_batches", 4, Source.FILE),
    ("hydra.yaml", "optim:\n  accumulation: 8  # batches", "accumulation", 8, Source.FILE),
    ("ds.json", '{"gradient_accumulation_steps": 8}', STEPS, 8, Source.FILE),
    ("args.py", 'p.add_argument("--accum_steps", type=int,\n default=4, help="x")', "accum_steps", 4, Source.DEFAULT),
    ("args.py", 'p.add_argument("-g", "--grad-accum", default=2)', "grad_accum", 2, Source.DEFAULT),
    ("args.py", "class Arguments:\n    grad_accum: int = 8", "grad_accum", 8, Source.DEFAULT),
    ("args.py", "class Arguments:\n    accumulation: int = field(default=16)", "accumulation", 16, Source.DEFAULT),
]


@pytest.mark.parametrize(("name", "source", "key", "value", "by"), WRITTEN)
def test_written(name: str, source: str, key: str, value: int, by: Source) -> None:
    (found,) = outside.read(source, name)
    assert (found.key, found.value, found.source) == (key, value, by)
    spot = found.where.spot
    line = source.split("\n")[spot.row - 1]
    assert line[spot.column :].lower().replace("-", "_").removeprefix("accelerate_").startswith(key)


@pytest.mark.parametrize(
    "source", ["# gradient_accumulation_steps: 4", "max_steps: 4", "gradient_accumulation_steps: auto", "accum: 0.5"]
)
def test_says_nothing(source: str) -> None:
    assert list(outside.read(source, "config.yaml")) == []


ACCELERATED = """
import torch.nn.functional as F
from accelerate import Accelerator
accelerator = Accelerator({GIVEN})
def train(model, optimizer, loader):
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
{REST}
"""


def evidence(folder: Path, code: str, **files: str) -> list[tuple[str, str, str]]:
    """Of each GA101 and GA103 in the project's train.py: code, and name and message of the evidence beside it."""
    for name, content in {"pyproject.toml": "", **files}.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    found = engine.check_source(code.encode(), str(folder / "train.py"), FileProject(), ALL).findings
    return [
        (f.code, r.place.filename.rpartition("/")[2], r.message)
        for f in found
        if f.code in {"GA101", "GA103"}
        for r in f.related
        if r.role is Role.EVIDENCE
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.sh", "accelerate launch --gradient_accumulation_steps 4 train.py\n"),
        ("conf__accelerate.yaml", "distributed_type: NO\ngradient_accumulation_steps: 4\n"),
        ("Makefile", "train:\n\tACCELERATE_GRADIENT_ACCUMULATION_STEPS=4 python train.py\n"),
    ],
)
def test_accelerate_that_is_told_from_outside(tmp_path: Path, name: str, content: str) -> None:
    code = ACCELERATED.replace("{GIVEN}", "").replace("{REST}", "")
    (said, where, message), *_ = evidence(tmp_path, code, **{name: content})
    assert (said, where) == ("GA101", name.rpartition("__")[2])
    assert "is 4 here" in message


def test_accelerate_that_is_told_nothing(tmp_path: Path) -> None:
    code = ACCELERATED.replace("{GIVEN}", "").replace("{REST}", "")
    script = "accelerate launch train.py --gradient_accumulation_steps 4\n"
    assert evidence(tmp_path, code, **{"run.sh": script}) == []


@pytest.mark.parametrize(
    ("given", "rest", "steps"),
    [
        ("gradient_accumulation_steps=4", "", "by 4"),
        ("gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=6)", "", "by 6"),
        ("deepspeed_plugin=DeepSpeedPlugin(gradient_accumulation_steps=3)", "", "by 3"),
        ("", "def set_up(n):\n    accelerator.gradient_accumulation_steps = n\n", "by n"),
    ],
)
def test_accelerate_that_is_told_in_code(tmp_path: Path, given: str, rest: str, steps: str) -> None:
    code = ACCELERATED.replace("{GIVEN}", given).replace("{REST}", rest)
    (found,) = engine.check_source(code.encode(), str(tmp_path / "train.py"), FileProject(), ALL).findings
    assert found.code == "GA101"
    assert steps in found.message


PLAIN = """
import torch.nn.functional as F
def train(args, model, optimizer, loader):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0) / args.grad_accum
        loss.backward()
        if (i + 1) % args.grad_accum == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


def test_a_plain_loop_shows_where_its_steps_are_given(tmp_path: Path) -> None:
    parser = 'import argparse\np = argparse.ArgumentParser()\np.add_argument("--grad_accum", type=int, default=1)\n'
    script = "python train.py --grad_accum 8\n"
    told = evidence(tmp_path, PLAIN, **{"args.py": parser, "scripts__run.sh": script})
    assert ("GA101", "run.sh", "grad_accum is 8 here") in told


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    settings = {"one__run.sh": "python t.py --accum 2", "two__deep__run.sh": "python t.py --accum 3"}
    for name, content in settings.items():
        path = tmp_path / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / ".git").mkdir()
    told = {
        folder: {s.value for s in FileProject().settings(str(tmp_path / folder / "t.py"))}
        for folder in ("one", "two", "")
    }
    assert told == {"one": {2}, "two": {3}, "": {2, 3}}
