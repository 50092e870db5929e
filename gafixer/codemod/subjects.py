"""What fixes are made for: a window of a loop, a head, an override. One plan for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from gafixer.analysis.heads import HeadSite
from gafixer.analysis.overrides import OverrideSite
from gafixer.analysis.site import Site
from gafixer.codemod import heads, trainers
from gafixer.codemod.compose import compose, window_key
from gafixer.codemod.plan import merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.analysis.requirements import Target
    from gafixer.codemod.plan import Plan
    from gafixer.codemod.tree import Tree
    from gafixer.findings import Finding
    from gafixer.settings import Strategy

__all__ = ["Subject", "key", "plan"]

Subject: TypeAlias = "Site | HeadSite | OverrideSite"


def key(subject: Subject) -> object:
    """Subjects of one key are mended together."""
    return window_key(subject) if isinstance(subject, Site) else (type(subject), subject.spot)


def plan(tree: Tree, group: Sequence[tuple[Subject, Sequence[Finding]]], target: Target, strategy: Strategy) -> Plan:
    """The plan of a group.

    Raises:
        DeclinedError: a part can't be done, or two parts contradict each other.
    """
    sites = [(subject, said) for subject, said in group if isinstance(subject, Site)]
    plans = [compose(tree, sites, strategy)] if sites else []
    for subject, said in group:
        codes = {finding.code for finding in said}
        match subject:
            case HeadSite():
                plans.append(heads.mend(tree, subject, codes, target))
            case OverrideSite():
                plans.append(trainers.mend(tree, subject, codes, target))
            case Site():
                pass
    return merge(plans)
