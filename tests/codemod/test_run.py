"""Loops in many spellings are fixed and run: their gradients meet the reference, their reports say what they said."""

from __future__ import annotations

import functools

import pytest

torch = pytest.importorskip("torch")

from tests.codemod.fixer import fix  # noqa: E402 - the loops import torch
from tests.codemod.loops import ASSUMING, HEAD, LOOPS, WHOLE, batches, run  # noqa: E402 - the same

PARITY, FAULT = 1e-6, 1e-3

loops = pytest.mark.parametrize("name", LOOPS)


@functools.cache
def _fixed(name: str) -> str:
    made = fix(HEAD + LOOPS[name], unsafe=name in ASSUMING)
    assert made.startswith(HEAD)
    return made.removeprefix(HEAD)


@loops
@pytest.mark.parametrize("steps", [1, 4])
def test_meets_the_reference(name: str, steps: int) -> None:
    loader = batches(8 if name in WHOLE else 10)
    before, said = run(LOOPS[name], steps, loader)
    after, says = run(_fixed(name), steps, loader)
    assert len(after) == len(before) == -(-len(loader) // steps)
    assert max(after) < PARITY
    assert steps == 1 or max(before) > FAULT
    assert says == pytest.approx(said, rel=PARITY, nan_ok=True)


@loops
def test_a_second_run_changes_nothing(name: str) -> None:
    once = HEAD + _fixed(name)
    assert fix(once, unsafe=True) == once


@loops
def test_fixes_keep_the_rest(name: str) -> None:
    """Lines that the fix has no business with are there as they were."""
    before, after = LOOPS[name].splitlines(), _fixed(name).splitlines()
    mended = ("loss", "criterion", "cross_entropy", "scale", "steps > 1:", "/ steps")
    kept = [line for line in before if not any(word in line for word in mended)]
    position = 0
    for line in kept:
        position = after.index(line, position) + 1
