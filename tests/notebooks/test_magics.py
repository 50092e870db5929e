"""IPython's own syntax is hidden line for line, and comes back letter for letter."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gafixer.notebooks.magics import Hidden, python_from

HIDDEN = {
    "magic": "%matplotlib inline",
    "shell": "!pip install 'torch>=2",
    "shell over lines": "!pip install \\\n  torch \\\n  transformers\nx = 1",
    "indented": "if True:\n    !ls\nelse:\n    %cd ..\n",
    "help": "torch.nn.Linear?",
    "more help": "x = 1\nx??  # what is it",
    "asked first": "?x",
    "assigned": "files = !ls *.py\nx = files[0]",
    "assigned magic": "out, err = %sx ls",
    "assigned to an item": "a['x'] = !ls",
    "quoting": ",f a b\n;f a b\n/f a",
    "after a bracket": "f(\n  1,\n)\n%time f(2)\n",
    "after a string": 'x = """\n%d\n"""\n%time x\n',
    "after a quote in a comment": "x = 1  # it's (\n!ls\n",
    "after a continued line": "x = 1 + \\\n  2\n%ls\n",
    "apostrophe in a magic": "!echo it's\nx = '''\n!no\n'''\n",
}
LEFT = {
    "plain": "x = a % b\nz = not (x != y)\n",
    "in brackets": "x = (a\n% b\n)",
    "in a string": 'x = """\n%d\n!ls\nwhat?\n"""\n',
    "in a raw string": "x = r'''\\\n%d'''\n",
    "continued": "x = a \\\n% b\n",
    "question in a comment": "x = 1  # why?\n",
    "question in a string": "print('why?')\n",
}


@pytest.mark.parametrize("cell", HIDDEN.values(), ids=HIDDEN)
def test_what_ipython_understands(cell: str) -> None:
    """It is Python then, with as many lines, and with what was Python before."""
    hidden = Hidden()
    made = hidden.hide(cell)
    ast.parse(made)
    assert made != cell
    assert made.count("\n") == cell.count("\n")
    assert hidden.show(made) == cell
    for line, shown in zip(cell.split("\n"), made.split("\n"), strict=True):
        assert shown == line or "gafixer ipython" in made


@pytest.mark.parametrize("cell", LEFT.values(), ids=LEFT)
def test_python_is_left_alone(cell: str) -> None:
    """Signs inside expressions, strings and comments are Python's."""
    ast.parse(cell)
    assert Hidden().hide(cell) == cell


@given(st.lists(st.sampled_from([*HIDDEN.values(), *LEFT.values(), "\n", "(", "'", '"""', "#", "\\"]), max_size=6))
def test_letter_for_letter(parts: list[str]) -> None:
    """Whatever stands there, also what is no Python at all."""
    hidden = Hidden()
    cells = [*parts, "\n".join(parts)]
    shown = [hidden.hide(cell) for cell in cells]
    assert [made.count("\n") for made in shown] == [cell.count("\n") for cell in cells]
    assert hidden.show("\0".join(shown)) == "\0".join(cells)


def test_what_is_lost_is_told() -> None:
    """A program that lost a magic, or has it twice, can't be shown."""
    hidden = Hidden()
    made = hidden.hide("%ls\n")
    for program in ("", made * 2):
        with pytest.raises(ValueError, match="a magic was lost"):
            hidden.show(program)


@pytest.mark.parametrize(
    ("cell", "start"),
    [
        ("x = 1", 0),
        ("%time x", 0),
        ("%%time\nx = 1", 7),
        ("\n%%capture out\n%%time\nx", 22),
        ("%%time", 6),
        ("%%bash\nls", None),
        ("%%time\n%%html\n<p>", None),
        ("%%writefile train.py\nloss.backward()", None),
    ],
)
def test_cell_magics(cell: str, start: int | None) -> None:
    """Where the Python of a cell begins, if it is one."""
    assert python_from(cell) == start
