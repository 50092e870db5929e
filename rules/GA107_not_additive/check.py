"""GA107: a loss of the whole batch that no sum over microbatches can equal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gafixer.analysis.spelling import peel, text
from gafixer.analysis.values import Atom, Called, Kind, Reduction
from gafixer.findings import Confidence, Severity
from gafixer.rulebook import Rule
from gafixer.wording import around, finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import LossTerm, Site
    from gafixer.findings import Finding

_CURVED = re.compile(r"(^|\.)(sqrt|exp|log|pow|rsqrt|log1p)(\(\))?$")
_IN_BATCH = re.compile(r"arange|eye\b")


def check(site: Site) -> Iterator[Finding]:
    """At the loss: no division repairs it."""
    if not site.accumulates:
        return
    for term in site.terms:
        reason = _reason(term)
        if reason is not None:
            yield finding(
                RULE,
                site,
                term.atom.spot,
                f"{reason}: accumulation can't equal one big batch here, whatever it is divided by",
                severity=Severity.INFO,
                confidence=Confidence.MEDIUM,
                help_="use a bigger microbatch, or a loss that is a mean over items",
                related=around(site),
            )
            return


def _reason(term: LossTerm) -> str | None:
    atom = term.atom
    made = atom.of
    if atom.kind is Kind.LOSS and atom.target is not None and _IN_BATCH.search(text(peel(atom.target))):
        return "each sample is scored against the others of its microbatch"
    if isinstance(made := peel(made) if made is not None else None, Called) and _CURVED.search(text(made.func)):
        inside = [a for a in (made.args or (getattr(made.func, "receiver", None),)) if isinstance(a, Atom)]
        if any(a.reduction is Reduction.MEAN for a in inside):
            return f"{text(made.func).rsplit('.', 1)[-1]} of a mean is not a mean"
    return None


RULE = Rule(
    "GA107", "not-additive", "The loss is not a sum over items, so accumulation can't equal the big batch.", check
)
