"""Plain loops are turned into loops of Accelerate and run with it: the reference is met on one process and on two."""

from __future__ import annotations

import functools
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")

from gafixer import mending, rulebook
from gafixer.analysis.project import MemoryProject
from gafixer.settings import Helpers, Settings
from tests.codemod.accelerated import HEAD, LOOPS
from tests.codemod.fixer import findings
from tests.codemod.processes import told

PARITY, FAULT = 1e-6, 1e-3
BATCHES = 10

loops = pytest.mark.parametrize("name", LOOPS)


def convert(source: str, helpers: Helpers = Helpers.PRIVATE) -> mending.Converted:
    """What comes of turning the loops of a file."""
    settings = Settings(frozenset(rulebook.catalogue()), helpers=helpers)
    made = mending.convert(source.encode(), "train.py", MemoryProject({}), settings)
    assert made is not None
    return made


@functools.cache
def _converted(name: str, helpers: Helpers = Helpers.PRIVATE) -> str:
    made = convert(HEAD + LOOPS[name], helpers)
    assert [loop.done for loop in made.loops] == [True], made.loops
    return made.new


@functools.cache
def _run(processes: int, steps: int, mended: bool = True, helpers: Helpers = Helpers.PRIVATE) -> dict[str, Any]:
    sources = {name: _converted(name, helpers) if mended else HEAD + text for name, text in LOOPS.items()}
    found: dict[str, Any] = told(["tests.codemod.accelerated", str(steps), str(BATCHES)], sources, processes)
    return found


@loops
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("steps", [1, 4])
def test_meets_the_reference(name: str, processes: int, steps: int) -> None:
    """Windows of four leave two batches over at the end of the epoch; one batch has no items at all."""
    made = _run(processes, steps)[name]
    windows = BATCHES if name == "no_accumulation" else -(-BATCHES // steps)
    assert len(made["errors"]) == windows
    assert max(made["errors"]) < PARITY
    assert made["schedule"] == windows * processes  # the prepared schedule advances for every process's batch


@loops
def test_reports_what_it_did(name: str) -> None:
    before, after = _run(1, 4, mended=False)[name], _run(1, 4)[name]
    assert after["reported"] == pytest.approx(before["reported"], rel=PARITY, nan_ok=True)


@pytest.mark.parametrize("name", [name for name in LOOPS if name != "no_accumulation"])
def test_misses_the_reference_before(name: str) -> None:
    assert max(_run(1, 4, mended=False)[name]["errors"]) > FAULT


@loops
def test_the_public_helper_does_the_same(name: str) -> None:
    assert "from gafixer.accumulate import CountedWindows" in _converted(name, Helpers.IMPORT)
    assert _run(1, 4, helpers=Helpers.IMPORT)[name] == _run(1, 4)[name]


@loops
def test_nothing_is_left_to_find_or_to_turn(name: str) -> None:
    assert findings(_converted(name)) == []
    settings = Settings(frozenset(rulebook.catalogue()))
    assert mending.convert(_converted(name).encode(), "train.py", MemoryProject({}), settings) is None


def test_is_one_of_accelerates() -> None:
    made = _converted("criterion")
    for line in [
        "from accelerate import Accelerator",
        "    accelerator = Accelerator(gradient_accumulation_steps=steps)",
        "            x, y = x.to(accelerator.device), y.to(accelerator.device)",
        "                loss * accelerator.num_processes * accelerator.gradient_accumulation_steps / num_items",
        "            if (i + 1) % steps == 0 or i + 1 == len(loader):",
        "                accelerator.clip_grad_norm_(model.parameters(), 1e9)",
    ]:
        assert line in made.splitlines()
    assert "/ steps" not in made


CRITERION = LOOPS["criterion"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("    model.to(device)\n", "    model = nn.parallel.DistributedDataParallel(model)\n", "its ranks itself"),
        ("            loss = criterion(", "            with torch.autocast(device):\n              loss = criterion(",
         "mixed precision itself"),
        ("for i, (x, y) in enumerate(loader):", "for i, (x, y) in enumerate(loader, start=done):", "within an epoch"),
        ("            reported.append", "            nn.utils.clip_grad_norm_(model.parameters(), 1)\n"
         "            reported.append", "for every microbatch"),
        ("            loss.backward()\n", "            if not loss.isnan():\n                loss.backward()\n",
         "for some batches only"),
        ("            loss = loss / steps\n", "            if loss.isnan():\n                continue\n"
         "            loss = loss / steps\n", "passed over"),
        ("criterion(model(x)", "criterion(model.tag(x)", "`model.tag`"),
        ("criterion(model(x)", "my_own_loss(model(x)", "could not be followed"),
        ("    reported = []\n", "    reported = accelerator = []\n", "an `accelerator` of its own"),
        ("                optimizer.step()\n", "                optimizer.step()\n                optimizer_2.step()\n",
         "one optimizer"),
        ("    for epoch in range(1):\n        model.train()\n",
         "    for name in names:\n        model, loader, optimizer, scheduler = make(name)\n", "again and again"),
    ],
)  # fmt: skip
def test_what_is_not_understood_stays(old: str, new: str, reason: str) -> None:
    source = HEAD + CRITERION.replace(old, new)
    assert source != HEAD + CRITERION
    made = convert(source)
    assert made.new == source
    assert [loop.done for loop in made.loops] == [False]
    assert reason in made.loops[0].message


def test_a_function_that_is_called_for_each_epoch_stays() -> None:
    source = HEAD + CRITERION + "\n\nfor epoch in range(9):\n    train(model, loader, optimizer, scheduler, 4)\n"
    made = convert(source)
    assert made.new == source
    assert "by its caller" in made.loops[0].message


def test_a_model_is_asked_for_its_own_things_without_its_wrapper() -> None:
    more = '        torch.save(model.state_dict(), f"{epoch}.pt")\n    return reported'
    made = convert(HEAD + CRITERION.replace("    return reported", more)).new
    assert 'torch.save(accelerator.unwrap_model(model).state_dict(), f"{epoch}.pt")' in made
