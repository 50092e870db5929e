"""What findings have in common: how rules make them, and how they name the places around a site."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gafixer.analysis.events import Framework
from gafixer.analysis.site import Divisor, Items, Scale
from gafixer.analysis.spelling import text
from gafixer.analysis.values import Author
from gafixer.findings import Confidence, Finding, Related, Role, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gafixer.analysis.site import Division, LossTerm, Site
    from gafixer.analysis.spot import Spot
    from gafixer.findings import Place
    from gafixer.rulebook import Rule

__all__ = ["Subject", "around", "finding", "loss_name", "steps_name"]


class Subject(Protocol):
    """What a rule looks at: it knows its places, and where in the scanned file a finding about one belongs."""

    @property
    def place(self) -> Callable[[Spot], Place]:
        """A spot in characters."""

    def own(self, spot: Spot | None, /) -> Spot:
        """The spot where a finding about `spot` belongs."""


def finding(
    rule: Rule,
    site: Subject,
    spot: Spot | None,
    message: str,
    *,
    severity: Severity,
    confidence: Confidence = Confidence.HIGH,
    help_: str = "",
    related: Iterable[Related] = (),
) -> Finding:
    """A finding of a rule at a spot of a site. Related places that are the finding's own are left out."""
    place = site.place(site.own(spot))
    kept: dict[tuple[object, ...], Related] = {}
    if spot is not None and site.own(spot) != spot:
        kept[spot, Role.DIVIDE] = Related(Role.DIVIDE, site.place(spot), "here")
    for item in related:
        if item.place != place:
            kept.setdefault((item.place, item.role), item)
    return Finding(rule.code, rule.name, message, severity, confidence, place, tuple(kept.values()), help_)


def around(site: Site, term: LossTerm | None = None, division: Division | None = None) -> list[Related]:
    """The places that a reader needs: where the mean is taken, divided, sent backward and stepped, and the evidence."""
    found = []
    if division is None and term is None:
        divisions = [d for t in site.terms for d in t.divided_by(Divisor.STEPS) if d.author is Author.CODE]
        division = divisions[0] if divisions else None
    if term is not None:
        how = {Scale.MEAN: "mean over one microbatch", Scale.SUM: "sum over one microbatch"}.get(term.scale, "the loss")
        found.append(Related(Role.MEAN, site.place(term.atom.spot), how))
    if division is not None and division.spot is not None:
        found.append(Related(Role.DIVIDE, site.place(division.spot), f"divided by {division.name}"))
        if division.via is not None and division.via != division.spot:
            found.append(Related(Role.DIVIDE, site.place(division.via), "the factor is made here"))
    by = f" ({site.framework.value})" if site.framework is not Framework.TORCH else ""
    found.append(Related(Role.BACKWARD, site.place(site.backward.spot), f"backward{by}"))
    if site.window.step is not None:
        found.append(Related(Role.STEP, site.place(site.window.step.spot), "the optimizer steps"))
    if site.steps_given is not None:
        found.append(Related(Role.EVIDENCE, site.place(site.steps_given.spot), site.steps_given.message))
    if term is not None:
        found += [Related(Role.EVIDENCE, site.place(e.spot), e.message) for e in term.evidence]
    return found


def steps_name(site: Site) -> str:
    """G as the code spells it, with its default where one is written."""
    name = text(site.steps) if site.steps is not None else ""
    if not 0 < len(name) <= 48:
        name = "the number of steps"
    default = site.steps_default
    if default is None or name == f"{default:g}":
        return name
    return f"{name} ({default:g} by default)"


def loss_name(term: LossTerm) -> str:
    """What a term's items are, for a message."""
    return {
        Items.TOKENS: "scored tokens",
        Items.MASKED: "items that the mask keeps",
        Items.WEIGHTS: "class weights",
        Items.SAMPLES: "samples",
        Items.ELEMENTS: "elements",
        Items.UNKNOWN: "items",
    }[term.items]
