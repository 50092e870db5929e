"""GA401: labels are counted that the model or the loss shifts away."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gafixer.analysis.site import Divisor, Scale
from gafixer.analysis.spelling import text
from gafixer.analysis.values import Atom
from gafixer.findings import Related, Role, Severity
from gafixer.rulebook import Rule
from gafixer.wording import around, finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Site
    from gafixer.findings import Finding

_SHIFTED = re.compile(r"\[[^\]]*\b1:\s*\]|\[[^\]]*:\s*-1\s*[\],]|shift", re.IGNORECASE)


def check(site: Site) -> Iterator[Finding]:
    """At the count."""
    for term in site.terms:
        if term.scale is not Scale.SUM or not _SHIFTED.search(site.source(term.atom.spot)):
            continue
        for division in term.divided_by(Divisor.WINDOW_ITEMS):
            count = division.value
            if (
                not isinstance(count, Atom)
                or _SHIFTED.search(site.source(count.spot))
                or not _counts_labels(site, count)
            ):
                continue
            yield finding(
                RULE,
                site,
                count.spot,
                "the first label of each row is counted but never predicted: "
                "the loss is divided by one target per row too many",
                severity=Severity.WARNING,
                help_="count the shifted labels: labels[..., 1:]",
                related=[Related(Role.COUNT, site.place(count.spot), "counted here"), *around(site, term, division)],
            )
            return


def _counts_labels(site: Site, count: Atom) -> bool:
    """Whether a count is of labels that are compared with the ignored one, and not of targets already shifted."""
    return "label" in site.source(count.spot) and "mask" not in text(count.mask)


RULE = Rule("GA401", "unshifted-count", "Labels are counted that the loss shifts away.", check)
