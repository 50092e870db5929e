"""The parts of README that are made from the code: each stands between two marks in it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer import rulebook
from gafixer.data.heads import Contract, HeadTable, heads
from gafixer.parity.divides import Loss
from gafixer.parity.figures import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["DIVIDES", "README", "filled", "made"]

_ROOT = Path(__file__).parents[2]
README = _ROOT / "README.md"
#: What `gafixer verify` measured in each release.
DIVIDES = Path(__file__).with_name("divides.json")
#: The losses that are driven, in few words.
_COLUMNS = {
    Loss.PLAIN: "model: no `**kwargs`",
    Loss.DROPS: "model: drops its `**kwargs`",
    Loss.HONOURS: "model: divides by the count",
    Loss.FUNCTION_IGNORES: "function: ignores the count",
    Loss.FUNCTION_DIVIDES: "function: divides by the count",
}


def made() -> dict[str, str]:
    """Name of a part -> its text."""
    return {"rules": _rules(), "heads": _heads(heads()), "divides": _divides()}


def filled(readme: str, parts: Mapping[str, str]) -> str:
    """README with each part between `<!-- NAME: made -->` and `<!-- /NAME -->`.

    Raises:
        ValueError: the marks of a part are not there once.
    """
    for name, text in parts.items():
        mark, end = re.search(rf"<!-- {name}: [^\n]*-->\n", readme), f"<!-- /{name} -->"
        if mark is None or readme.count(mark[0]) != 1 or readme.count(end) != 1:
            raise ValueError(f"README has no place for {name}, or more than one")
        readme = f"{readme[: mark.end()]}\n{text}\n{readme[readme.index(end) :]}"
    return readme


def _rules() -> str:
    rows = [
        f"| [{rule.code}](rules/{rulebook.folder(rule.code)}/README.md) | {rule.name} | {_cell(rule.summary)} |"
        for rule in rulebook.load()
    ]
    return "\n".join(["| code | name | says |", "|---|---|---|", *rows, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _divides() -> str:
    measured = json.loads(DIVIDES.read_text(encoding="utf-8"))
    head = " | ".join(_COLUMNS.values())
    rows = []
    for release in measured:
        ratios = {Loss(entry["loss"]): entry["ratio"] for entry in release["divides"]}
        cells = " | ".join(_ratio(ratios.get(loss)) for loss in _COLUMNS)
        rows.append(f"| {release['transformers']} | {release['accelerate']} | {cells} |")
    return "\n".join([f"| Transformers | Accelerate | {head} |", f"|---|---|{'---|' * len(_COLUMNS)}", *rows, ""])


def _heads(table: HeadTable) -> str:
    rows = []
    for release in table.releases:
        measured = [_worst(table.contracts(head, release).values()) for head in table.tasks]
        verdicts = [verdict for verdict in measured if verdict is not None]
        counted = [verdicts.count(kind) for kind in (Verdict.PARITY, Verdict.SUM_OF_MEANS, Verdict.MEAN_OF_MEANS)]
        cells = [len(verdicts), *counted, len(verdicts) - sum(counted)]
        rows.append(f"| {release} | {' | '.join(map(str, cells))} |")
    head = "| Transformers | heads | right | added up, divided by nobody | mean of means | otherwise |"
    return "\n".join([head, f"|{'---|' * 6}", *rows, ""])


def _worst(contracts: Iterable[Contract]) -> Verdict | None:
    """What is said of a head: that its means are added up before that they are averaged, and right only if all is.

    None for a head that the Trainer trained in no variant.
    """
    found = {
        Verdict(verdict) for contract in contracts for verdict in contract.trainer.values() if verdict in _VERDICTS
    }
    order = (Verdict.SUM_OF_MEANS, Verdict.MEAN_OF_MEANS, *(found - {Verdict.PARITY}), Verdict.PARITY)
    return next((verdict for verdict in order if verdict in found), None)


#: Variants that did not run have something else in the table.
_VERDICTS = frozenset(verdict.value for verdict in Verdict)


def _ratio(ratio: float | None) -> str:
    if ratio is None:  # the release has no such thing
        return ""
    return "right" if abs(ratio - 1) < 1e-3 else f"**{ratio:.3g} x**"
