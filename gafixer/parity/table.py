"""Writes what `verify` measured into the table that the scanner reads; its form stands in `gafixer.data.heads`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from gafixer.data.heads import Contract
from gafixer.parity.contract import merged
from gafixer.parity.verify import releases

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gafixer.parity.divides import Division
    from gafixer.parity.measure import Outcome
    from gafixer.parity.runner import HeadReport

__all__ = ["empty", "profile_of", "render", "updated"]

_Profile = dict[str, Contract]


def empty() -> dict[str, Any]:
    """A table of nothing."""
    return {"version": 1, "releases": [], "contracts": [], "profiles": [], "heads": {}}


def profile_of(report: HeadReport) -> _Profile:
    """The head's contracts by problem type; empty where no variant ran."""
    found: dict[str, list[Outcome]] = {}
    for outcome in report.outcomes:
        if outcome.contract is not None:
            found.setdefault(outcome.problem.value if outcome.problem else "", []).append(outcome)
    return {
        problem: merged([o.contract for o in outcomes if o.contract], {_short(o): _verdict(o) for o in outcomes})
        for problem, outcomes in found.items()
    }


def _short(outcome: Outcome) -> str:
    """The variant without its problem type: "regression, even" is "even"."""
    return outcome.variant.rpartition(", ")[2]


def _verdict(outcome: Outcome) -> str:
    if outcome.figures is not None:
        return outcome.figures.verdict.value
    return outcome.trouble.value if outcome.trouble else ""


@dataclass(slots=True)
class _Interned:
    """Every distinct value once, in the order of its first use."""

    values: list[Any] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)

    def place(self, value: Any) -> int:
        key = json.dumps(value, sort_keys=True)
        if key not in self.places:
            self.places[key] = len(self.values)
            self.values.append(value)
        return self.places[key]


def _plain(contract: Contract) -> dict[str, Any]:
    return {
        "shifts": contract.shifts,
        "ignored": contract.ignored,
        "count": contract.count.value,
        "trainer": dict(contract.trainer),
    }


def _opened(table: Mapping[str, Any]) -> dict[str, tuple[str, dict[str, dict[str, Any]]]]:
    """Head -> its task, and by release its profile with the contracts in place."""
    names = [release["transformers"] for release in table["releases"]]
    return {
        head: (
            task,
            {
                name: {problem: table["contracts"][c] for problem, c in table["profiles"][i].items()}
                for name, i in zip(names, places, strict=True)
                if i is not None
            },
        )
        for head, (task, places) in table["heads"].items()
    }


def updated(
    table: Mapping[str, Any], reports: Iterable[HeadReport], divisions: Sequence[Division], steps: int
) -> dict[str, Any]:
    """The table with these heads of the installed release in it; what it holds of other releases and heads stays."""
    installed = releases()
    now = {**installed, "steps": steps, "divides": {d.loss.name: round(d.ratio, 6) for d in divisions}}
    others = [r for r in table["releases"] if r["transformers"] != installed["transformers"]]
    known = _opened(table)
    for report in reports:
        _, by_release = known.setdefault(report.head.name, (report.head.task.value, {}))
        profile = {problem: _plain(contract) for problem, contract in profile_of(report).items()}
        by_release.pop(installed["transformers"], None)
        if profile:
            by_release[installed["transformers"]] = profile
    return _closed([*others, now], known)


def _closed(
    entries: list[dict[str, Any]], known: Mapping[str, tuple[str, dict[str, dict[str, Any]]]]
) -> dict[str, Any]:
    ordered = sorted(entries, key=lambda release: Version(release["transformers"]))
    contracts, profiles = _Interned(), _Interned()
    heads = {}
    for head, (task, by_release) in sorted(known.items()):
        rows = [by_release.get(release["transformers"]) for release in ordered]
        places = [
            None if row is None else profiles.place({problem: contracts.place(c) for problem, c in row.items()})
            for row in rows
        ]
        if any(place is not None for place in places):
            heads[head] = [task, places]
    return {
        "version": 1,
        "releases": ordered,
        "contracts": contracts.values,
        "profiles": profiles.values,
        "heads": heads,
    }


def render(table: Mapping[str, Any]) -> str:
    """JSON with one contract, profile or head to a line, so that a change can be read in a diff."""

    def lines(entries: Iterable[str]) -> str:
        return ",\n".join(entries)

    parts = [f'"version": {table["version"]}']
    for name in ("releases", "contracts", "profiles"):
        parts.append(f'"{name}": [\n{lines(json.dumps(entry) for entry in table[name])}\n]')
    heads = lines(f"{json.dumps(head)}: {json.dumps(entry)}" for head, entry in table["heads"].items())
    parts.append(f'"heads": {{\n{heads}\n}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"
