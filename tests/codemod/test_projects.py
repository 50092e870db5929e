"""A plan may change several files: the fixed project meets the reference, and who else uses them gets what he got."""

from __future__ import annotations

import functools

import pytest

torch = pytest.importorskip("torch")

from tests.codemod.fixer import fix_files  # noqa: E402 - the projects import torch
from tests.codemod.loops import batches  # noqa: E402 - the same
from tests.codemod.projects import PROJECTS, run  # noqa: E402 - the same

PARITY, FAULT = 1e-6, 1e-3

projects = pytest.mark.parametrize("name", PROJECTS)


@functools.cache
def _fixed(name: str) -> tuple[tuple[str, str], ...]:
    return tuple(fix_files(PROJECTS[name]).items())


@projects
@pytest.mark.parametrize("steps", [1, 4])
def test_meets_the_reference(name: str, steps: int) -> None:
    loader = batches()
    before, said = run(PROJECTS[name], steps, loader)
    after, says = run(dict(_fixed(name)), steps, loader)
    assert len(after) == len(before) == -(-len(loader) // steps)
    assert max(after) < PARITY
    assert steps == 1 or max(before) > FAULT
    assert says == pytest.approx(said, rel=PARITY, nan_ok=True)


@projects
def test_a_second_run_changes_nothing(name: str) -> None:
    once = dict(_fixed(name))
    assert fix_files(once, unsafe=True) == once


@projects
def test_changes_the_file_of_the_loss_but_where_it_can_be_asked(name: str) -> None:
    changed = {module for module, text in _fixed(name) if PROJECTS[name][module] != text}
    where = {"function_of_a_helper_module": {"losses"}, "parameter_there_already": set()}
    assert changed == {"train"} | where.get(name, {"model"})
