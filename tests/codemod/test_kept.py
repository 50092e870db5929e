"""What a rewrite does not touch is not parsed again; what comes of it is what the whole file would give."""

from __future__ import annotations

import ast

import pytest

from gafixer.codemod import apply
from gafixer.codemod.kept import shortened
from gafixer.codemod.plan import DeclinedError, Insert, Remove, Where
from gafixer.codemod.tree import Tree, spot_of

# Blank lines of an indentation of their own are written as ``~``.
SOURCE = '''\
import os; import sys
if sys.argv:
   import re  # three spaces
   # the block's
 # nobody's
else: re = None
~~~

@first
@second(
    1,
)
class Trainer:
    """Of two
lines."""

    steps = 4

    def fit(self, loader):
        total = (
            1
            + 2
        )
        for batch in loader:
            if batch:
                total += 1

                # the condition's
~~~~~~~~~~~~~~~~~
              # deeper than the condition
            # the loop's
            elif total: pass
            elif batch is None:
                continue
            else:
                def nested():
                    return """
  margin
"""

                nested()
            # before the next
            total -= 1; total += 1
            x = 1 \\
                + 2
        # the function's
        else:
            match total:
                case 1:
                    pass
                    # the case's
                case _:
                    total = 0
~~~~~~~~~~~~
        try:
            pass
        except ValueError: raise
        except OSError:
            total = 1
        finally:
            total = 2
            # at the end

    # of the class

    async def later(self):
        async with self as it: await it
        return "\u00fc", 1


def main(): pass
# behind main


@first
def other():
    return 1
if __name__ == "__main__":
    main()
    # last'''.replace("~", " ")


def _statements(tree: Tree) -> list[ast.stmt]:
    return [node for node in ast.walk(tree.root) if isinstance(node, ast.stmt)]


@pytest.mark.parametrize("source", [SOURCE, SOURCE + "\n", SOURCE.replace("    ", "\t")], ids=["plain", "end", "tabs"])
def test_what_is_kept_comes_back(source: str) -> None:
    tree = Tree(source, "train.py")
    rows = sorted({node.lineno for node in _statements(tree)})
    for touched in [(), *((row,) for row in rows), rows[::7], rows]:
        short = shortened(tree, touched)
        lines = short.text.split("\n")
        assert short.restored(short.text) == source
        assert len(lines) == len(short.rows) - 1
        for row in touched:
            assert lines[short.rows.index(row) - 1] == source.split("\n")[row - 1]


def test_a_loop_in_a_long_function_is_all_that_is_parsed() -> None:
    tree = Tree(SOURCE, "train.py")
    assert len(shortened(tree, [tree.source[: tree.source.index("x = 1")].count("\n") + 1]).text) < len(SOURCE) / 2


@pytest.mark.parametrize("kind", ["before", "after", "removed"])
def test_a_change_of_any_statement_is_that_of_the_whole_file(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(SOURCE, "train.py")
    every = range(1, SOURCE.count("\n") + 2)
    for statement in _statements(tree):
        spot = spot_of(tree, statement)
        part = Remove(spot) if kind == "removed" else Insert(spot, Where[kind.upper()], "def new():\n    pass")
        made = _rewritten(tree, part)
        with monkeypatch.context() as whole:
            whole.setattr(apply, "_rows", lambda part: every)
            assert made == _rewritten(tree, part)


def _rewritten(tree: Tree, part: Insert | Remove) -> str:
    try:
        top = ("def helper():\n    pass\n",) if isinstance(part, Insert) else ()
        return apply.rewrite(tree, [part], top, part.spot.row, ["import json"])
    except DeclinedError as reason:
        return str(reason)
