"""What `gafixer verify` finds out: every head, before and after the patch."""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gafixer.parity.contract import observe
from gafixer.parity.figures import Verdict
from gafixer.parity.measure import Case, Outcome, Trouble, cases, drive_case
from gafixer.parity.measure import patch as patching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gafixer.parity.heads import Head
    from gafixer.parity.measure import Setting
    from gafixer.parity.runner import HeadReport
    from gafixer.parity.tasks import Task

__all__ = ["Pair", "TaskSummary", "misses", "pairs", "releases", "summarise", "work_with"]


@dataclass(frozen=True, slots=True)
class Pair:
    """One variant of a head: as it is, and with the patch (None where the patch was not asked for)."""

    variant: str
    before: Outcome
    after: Outcome | None

    @property
    def decisive(self) -> Outcome:
        """What the exit code goes by: with the patch where there is one."""
        return self.before if self.after is None else self.after

    @property
    def built(self) -> bool:
        """Whether the head runs this variant by itself."""
        return self.before.trouble is not Trouble.NOT_BUILT

    @property
    def proven(self) -> bool:
        """Whether the variant says anything: it runs, and its window has a gradient."""
        figures = self.decisive.figures
        return self.built and not (figures is not None and figures.verdict is Verdict.NO_GRADIENT)

    @property
    def ok(self) -> bool:
        """Whether the variant meets the bound."""
        return self.decisive.ok


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """Heads of one task: all, built, right in every variant before, and after (None without the patch)."""

    task: Task
    heads: int
    built: int
    right_before: int
    right_after: int | None


def work_with(setting: Setting, patched: bool, *, contracts: bool = False) -> Callable[[Head], Iterator[Outcome]]:
    """What a worker does with a head: each variant as it is, with its contract if asked, then with the patch."""

    def work(head: Head) -> Iterator[Outcome]:
        for case in cases(head, setting):
            match case:
                case Outcome():
                    yield case
                case Case():
                    with patching(False):
                        contract = observe(case) if contracts else None
                    yield replace(drive_case(case, setting), contract=contract)
                    if patched:
                        yield drive_case(case, setting, patched=True)

    return work


def pairs(report: HeadReport) -> tuple[Pair, ...]:
    """The report's outcomes, put together by variant."""
    before = {o.variant: o for o in report.outcomes if not o.patched}
    after = {o.variant: o for o in report.outcomes if o.patched}
    return tuple(Pair(variant, outcome, after.get(variant)) for variant, outcome in before.items())


def misses(report: HeadReport) -> tuple[Pair, ...]:
    """The variants that run but miss the bound."""
    return tuple(pair for pair in pairs(report) if pair.proven and not pair.ok)


def _right(outcomes: Iterable[Outcome | None]) -> bool:
    given = [outcome for outcome in outcomes if outcome is not None]
    return bool(given) and all(outcome.ok for outcome in given)


def summarise(reports: Iterable[HeadReport], patch: bool) -> tuple[TaskSummary, ...]:
    """The heads counted by task, in the tasks' order."""
    counts: dict[Task, Counter[str]] = {}
    for report in reports:
        count = counts.setdefault(report.head.task, Counter())
        proven = [pair for pair in pairs(report) if pair.proven]
        count["heads"] += 1
        count["built"] += bool(proven)
        count["before"] += _right(pair.before for pair in proven)
        count["after"] += bool(proven) and all(pair.ok for pair in proven)
    order = list(type(next(iter(counts)))) if counts else []
    return tuple(
        TaskSummary(task, c["heads"], c["built"], c["before"], c["after"] if patch else None)
        for task in order
        if (c := counts.get(task)) is not None
    )


def releases() -> dict[str, str]:
    """The installed versions of what the figures depend on."""
    return {name: importlib.metadata.version(name) for name in ("transformers", "accelerate", "torch")}
