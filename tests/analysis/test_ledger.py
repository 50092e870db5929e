"""A ledger is a dict that can be set back, and branches are joined by it."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gafixer.analysis.interpreter import Interpreter
from gafixer.analysis.ledger import Ledger
from gafixer.analysis.project import MemoryProject
from gafixer.analysis.source import Module
from gafixer.analysis.values import Choice, Const, Value

writes = st.lists(st.tuples(st.sampled_from("abcd"), st.integers()), max_size=6)


@given(writes, st.lists(writes, max_size=4))
def test_undo_restores_every_mark(first: list[tuple[str, int]], later: list[list[tuple[str, int]]]) -> None:
    """Marks inside marks, undone from the last to the first."""
    ledger: Ledger[str, int] = Ledger(dict(first))
    stack = []
    for batch in later:
        stack.append((ledger.mark(), dict(ledger)))
        for key, value in batch:
            ledger[key] = value
    for mark, before in reversed(stack):
        changed = ledger.changes(mark)
        assert {key: now for key, (_, now) in changed.items()} == {key: ledger[key] for key in changed}
        assert {key: old for key, (old, _) in changed.items()} == {key: before.get(key) for key in changed}
        assert ledger.undo(mark) == changed
        assert dict(ledger) == before


@given(writes, writes)
def test_what_an_inner_undo_leaves_is_undone_by_the_outer(
    first: list[tuple[str, int]], second: list[tuple[str, int]]
) -> None:
    """An outer mark still knows everything before it."""
    ledger: Ledger[str, int] = Ledger({"a": 0})
    outer = ledger.mark()
    for key, value in first:
        ledger[key] = value
    inner = ledger.mark()
    for key, value in second:
        ledger[key] = value
    ledger.undo(inner)
    ledger.undo(outer)
    assert dict(ledger) == {"a": 0}


def _after(source: str) -> dict[str, Value]:
    """What names are after statements ran."""
    module = Module.read("m", "m.py", source.encode(), whole=True)
    run = Interpreter(MemoryProject({}), module, set())
    run.scopes.append(run.new_scope(module))
    run.block(ast.parse(source).body)
    return dict(run.scope.env)


def _options(value: Value) -> set[object]:
    parts = value.options if isinstance(value, Choice) else (value,)
    return {part.value for part in parts if isinstance(part, Const)}


@pytest.mark.parametrize(
    ("body", "possible"),
    [
        ("if c: x = 2", {1, 2}),
        ("if c: x = 2\nelse: x = 3", {2, 3}),
        ("if c: x = 2\nelse: pass", {1, 2}),
        ("if c: pass\nelse: x = 3", {1, 3}),
        ("if c:\n    x = 2\n    raise ValueError", {1}),
        ("if c: raise ValueError\nelse: x = 3", {3}),
        ("if c:\n    x = 2\nelse:\n    x = 3\n    raise ValueError", {2}),
        ("if c:\n    if d: x = 2\nelse:\n    x = 3", {1, 2, 3}),
        ("if c: x = 1", {1}),
        ("if True: x = 2\nelse: x = 3", {2}),
        ("if not True: x = 2\nelse: x = 3", {3}),
        ("x = 2 if c else 3", {2, 3}),
        ("match c:\n    case 1: x = 2\n    case _: x = 3", {1, 2, 3}),
        ("if c:\n    x = 2\nx = 4", {4}),
        ("if c:\n    x = 2\n    if d:\n        x = 3\n        raise ValueError", {1, 2}),
    ],
)
def test_branches_join(body: str, possible: set[int]) -> None:
    """After a branch a name may be whatever an arm that goes on made of it."""
    assert _options(_after(f"x = 1\n{body}\n")["x"]) == possible
