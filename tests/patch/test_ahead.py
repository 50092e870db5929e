"""Windows as releases up to 4.46 step them: every G microbatches since the start, across epochs."""

from __future__ import annotations

from typing import Any

from gafixer.patch.ahead import WindowLoader, windows


def test_windows_and_the_rest_of_an_epoch() -> None:
    assert list(windows(range(10), 4, 0)) == [([0, 1, 2, 3], False), ([4, 5, 6, 7], False), ([8, 9], False)]


def test_the_next_epoch_completes_the_window() -> None:
    assert list(windows(range(10), 4, 10)) == [([0, 1], True), ([2, 3, 4, 5], False), ([6, 7, 8, 9], False)]


def test_an_epoch_of_one_short_window_steps_at_its_end() -> None:
    assert list(windows(range(3), 4, 0)) == [([0, 1, 2], False)]
    assert list(windows(range(4), 4, 0)) == [([0, 1, 2, 3], False)]


def test_a_short_epoch_also_steps_where_the_count_comes_round() -> None:
    assert list(windows(range(3), 4, 3)) == [([0], False), ([1, 2], False)]


def test_nothing_to_read() -> None:
    assert list(windows([], 4, 0)) == []


def test_the_loader_announces_a_window_before_its_first_microbatch() -> None:
    told: list[tuple[list[Any], bool]] = []
    loader = WindowLoader([1, 2, 3, 4, 5], 2, lambda batches, carried: told.append((batches, carried)))
    seen = [(batch, len(told)) for batch in loader]
    assert seen == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)]
    assert next(iter(loader)) == 1
    assert told[3] == ([1], True)
    assert len(loader) == 5
