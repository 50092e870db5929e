"""Every spelling of a mean that is divided by the steps is found at its division; right code like it is not."""

from __future__ import annotations

import pytest

from tests.analysis.scanning import expected, loud, scan, sites, training
from tests.analysis.spellings import CE, RIGHT, WRONG, Spelling


@pytest.mark.parametrize("spelling", WRONG, ids=lambda s: s.name)
def test_found_at_its_row(spelling: Spelling) -> None:
    """With the severity that is marked there, and nothing else."""
    source = spelling.source
    assert expected(source), "the snippet marks no row"
    assert loud(scan(source, **spelling.modules)) == expected(source)


@pytest.mark.parametrize("spelling", RIGHT, ids=lambda s: s.name)
def test_right_code_stays_silent(spelling: Spelling) -> None:
    """Nothing is shown by default."""
    assert loud(scan(spelling.source, **spelling.modules)) == set()


def test_as_many_right_forms_as_wrong_ones() -> None:
    """Whoever adds a spelling adds what must not be taken for it."""
    assert len(RIGHT) >= len(WRONG)


def test_the_frame_itself_is_right() -> None:
    """What the snippets stand in says nothing by itself."""
    assert scan(training("pass")) == ()


def test_steps_from_the_environment() -> None:
    """A number that only the environment knows divides as any other."""
    steps = "import os\nG = int(os.environ['ACCUMULATION_STEPS'])\n"
    source = steps + training(f"{CE}loss = loss / G  # GA101 error\nloss.backward()").replace("% n", "% G")
    assert loud(scan(source)) == expected(source)


def test_what_may_be_none_is_something_where_it_is_called() -> None:
    """None gives no other loss that could have equal counts."""
    made = "criterion = None\nif n > 1:\n    criterion = nn.CrossEntropyLoss(ignore_index=0)\n"
    body = f"{made}loss = criterion(model(x).flatten(0, 1), y.flatten()).mean()\n(loss / n).backward()  # GA101 error"
    source = training(body)
    assert loud(scan(source)) == expected(source)


_DECORATED = (
    "def scaled(function):\n    def inner(logits, y, n):\n        return function(logits, y) / n  # GA101 error\n"
    "    return inner\n@scaled\ndef compute(logits, y):\n"
    "    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=0)\n"
)


def test_a_decorator_that_divides() -> None:
    """The division is the decorator's, and nobody is told that there is none."""
    source = training("compute(model(x), y, n).backward()", _DECORATED)
    assert loud(scan(source)) == expected(source)


def test_a_decorator_that_hands_all_arguments_on() -> None:
    """A method's, which also gets the object."""
    decorated = (
        "def scaled(function):\n    @functools.wraps(function)\n    def inner(*args, n, **kwargs):\n"
        "        return function(*args, **kwargs) / n  # GA101 error\n    return inner\n"
        "class Task:\n    @scaled\n    def compute(self, logits, y):\n"
        "        return F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=0)\ntask = Task()\n"
    )
    source = training("task.compute(model(x), y=y, n=n).backward()", decorated)
    assert loud(scan(source)) == expected(source)


@pytest.mark.parametrize("spelling", RIGHT, ids=lambda s: s.name)
def test_right_code_is_seen(spelling: Spelling) -> None:
    """Silence counts only where a loss that goes backward was found."""
    assert sites(spelling.source)
