"""Workers: what hangs or dies costs itself only."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from gafixer.parity.heads import Head
from gafixer.parity.measure import Outcome, Trouble
from gafixer.parity.runner import run_heads

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADS = tuple(Head(name, "nowhere", ("labels",)) for name in ("Fine", "Hangs", "Dies", "Burns"))


def work(head: Head) -> Iterator[Outcome]:
    yield Outcome(head, "first", None, Trouble.NOT_DRIVEN, "as asked")
    match head.name:
        case "Hangs":
            time.sleep(60)
        case "Burns":
            while True:
                pass
        case "Dies":
            os.kill(os.getpid(), signal.SIGKILL)


def test_every_head_is_reported_with_what_it_had_to_say() -> None:
    reports = {report.head.name: report for report in run_heads(HEADS, work=work, jobs=4, timeout=1)}
    assert {name: len(report.outcomes) for name, report in reports.items()} == {
        "Fine": 1,
        "Hangs": 2,
        "Dies": 2,
        "Burns": 2,
    }
    assert reports["Hangs"].outcomes[-1].reason == "no answer in 10 s"
    assert reports["Burns"].outcomes[-1].reason == "not done in 1 s of CPU time"
    assert "SIGKILL" in reports["Dies"].outcomes[-1].reason
    assert all(report.outcomes[0].reason == "as asked" for report in reports.values())


def test_a_started_head_is_announced() -> None:
    names: list[str] = []
    list(run_heads(HEADS[:1], work=work, started=lambda head: names.append(head.name)))
    assert names == ["Fine"]
