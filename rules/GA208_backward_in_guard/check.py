"""GA208: only the window's last microbatch runs backward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.findings import Severity
from gafixer.leftovers import backward_after_loop, guarded_backward
from gafixer.rulebook import Rule
from gafixer.wording import around, finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Site
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """At backward, where its loss is that of one microbatch."""
    if any(t.atom.accumulated is not None for t in site.terms):
        return
    if not guarded_backward(site) and not backward_after_loop(site):
        return
    yield finding(
        RULE,
        site,
        site.backward.spot,
        "backward runs once per window, for its last microbatch only: the others never reach a gradient",
        severity=Severity.ERROR,
        help_="run backward for every microbatch, and guard the step alone",
        related=around(site, site.terms[0] if site.terms else None),
    )


RULE = Rule("GA208", "backward-in-guard", "Only the window's last microbatch runs backward.", check)
