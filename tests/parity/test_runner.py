"""Workers: what hangs or dies costs itself only."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from typing import TYPE_CHECKING

from gafixer.parity.heads import Head
from gafixer.parity.measure import Outcome, Trouble
from gafixer.parity.runner import run_heads

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

HEADS = tuple(Head(name, "nowhere", ("labels",)) for name in ("Fine", "Hangs", "Dies", "Burns", "Raises"))


def work(head: Head) -> Iterator[Outcome]:
    yield Outcome(head, "first", None, Trouble.NOT_DRIVEN, "as asked")
    match head.name:
        case "Hangs":
            time.sleep(60)
        case "Raises":
            raise KeyError("a fault of our own")
        case "Burns":
            while True:
                pass
        case "Dies":
            os.kill(os.getpid(), signal.SIGKILL)


def test_every_head_is_reported_with_what_it_had_to_say() -> None:
    heads = [head for head in HEADS if head.name != "Burns"]
    reports = {report.head.name: report for report in run_heads(heads, work=work, jobs=4, timeout=1)}
    counts = {name: len(report.outcomes) for name, report in reports.items()}
    assert counts == {"Fine": 1, "Hangs": 2, "Dies": 2, "Raises": 2}
    assert reports["Hangs"].outcomes[-1].reason == "no answer in 10 s"
    assert reports["Raises"].outcomes[-1].reason == "KeyError: 'a fault of our own'"
    assert "SIGKILL" in reports["Dies"].outcomes[-1].reason
    assert all(report.outcomes[0].reason == "as asked" for report in reports.values())


def test_time_is_that_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gafixer.parity.runner._PATIENCE", 600)  # however little a busy machine grants
    (report,) = run_heads([head for head in HEADS if head.name == "Burns"], work=work, timeout=1)
    assert report.outcomes[-1].reason == "not done in 1 s of CPU time"


def test_at_the_end_of_its_time_it_stops() -> None:
    began = time.monotonic()
    hangs = [head for head in HEADS if head.name == "Hangs"]
    assert list(run_heads(hangs, work=work, until=began + 1)) == []
    assert multiprocessing.active_children() == []


def test_a_started_head_is_announced() -> None:
    names: list[str] = []
    list(run_heads(HEADS[:1], work=work, started=lambda head: names.append(head.name)))
    assert names == ["Fine"]
