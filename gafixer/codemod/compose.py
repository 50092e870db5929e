"""From the findings of a window to its one plan. Which part a code asks for stands in one table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gafixer.analysis.events import AUTOMATIC, EventKind, Framework
from gafixer.analysis.site import Divisor, Scale
from gafixer.analysis.values import Author
from gafixer.codemod import guards, order, scale
from gafixer.codemod.division import dropped
from gafixer.codemod.ignite import in_handlers
from gafixer.codemod.lightning import in_hook
from gafixer.codemod.plan import DeclinedError, Plan, merge
from gafixer.codemod.read_ahead import read_ahead
from gafixer.codemod.rescale import rescale
from gafixer.findings import Applicability
from gafixer.settings import Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gafixer.analysis.site import Division, Site
    from gafixer.analysis.spot import Spot
    from gafixer.codemod.tree import Tree
    from gafixer.findings import Finding

__all__ = ["SEPARATE", "compose", "window_key"]

#: Findings that may be mended though others of their window can't.
SEPARATE = frozenset({"GA103", "GA202", "GA203", "GA204", "GA205", "GA207", "GA208", "GA401", "GA402", "GA501"})

#: Findings that one division by the window's items mends.
_RESCALED = frozenset({"GA101", "GA102", "GA104", "GA105"})
#: The window that a loop leaves over.
_LEFT_OVER = frozenset({"GA201", "GA206"})
#: Codes that have no fix, or none of this kind.
_NONE = frozenset({"GA106", "GA107"})


def window_key(site: Site) -> object:
    """Sites of one key share their windows: the arms of a condition in one loop, or a step without a loop in sight."""
    window = site.window
    if window.loop is not None:
        return window.loop.spot
    return window.step.spot if window.step is not None else site.backward.spot


def compose(tree: Tree, group: Iterable[tuple[Site, Iterable[Finding]]], strategy: Strategy) -> Plan:
    """The plan of a window.

    Raises:
        DeclinedError: a part can't be done, or two parts contradict each other.
    """
    sites = [(site, {f.code for f in said}) for site, said in group]
    peers = tuple(site for site, _ in sites)
    return merge([_of_site(tree, site, codes, peers, strategy) for site, codes in sites])


def _of_site(tree: Tree, site: Site, codes: set[str], peers: Sequence[Site], strategy: Strategy) -> Plan:
    if codes & _NONE:
        raise DeclinedError("there is no automatic fix for this")
    if "GA208" in codes:
        return order.backward_out(tree, site)
    if "GA207" in codes:
        return order.step_out(tree, site)
    plans = []
    twice = "GA103" in codes
    if twice and not _needs_rescale(site):
        plans.append(_once(tree, site))
        codes = codes - _RESCALED
    if codes & _LEFT_OVER:
        plans.append(guards.flush(tree, site, mended="GA202" in codes))
    elif "GA202" in codes:
        plans.append(guards.guard(tree, site))
    if codes & (_RESCALED | ({"GA103"} if twice and _needs_rescale(site) else set())) or (
        codes & _LEFT_OVER and _is_by_steps(site)
    ):
        plans.append(_divided(tree, site, peers, strategy))
        codes = codes - {"GA501"}  # the rescale sees to the reports
    plans += [mend(tree, site) for code, mend in _SCALED if code in codes]
    for code, kind, make in _MOVED:
        if code in codes:
            plans.append(make(tree, site, _moved(site, kind, code)))
    if not plans:
        raise DeclinedError("there is no automatic fix for this")
    made = merge(plans)
    if codes & _LEFT_OVER and made.helper is not None:
        # With its own count the window that is left over is right whatever its length.
        made = replace(made, applicability=max((p.applicability for p in plans if p.helper), key=_ORDER.index))
    return made


def _divided(tree: Tree, site: Site, peers: Sequence[Site], strategy: Strategy) -> Plan:
    """Divide by the window's items where gradients, or the loss, can be touched.

    Raises:
        DeclinedError: what fits here is not the way that was asked for.
    """
    match site.framework:
        case Framework.DEEPSPEED:
            fits = {Strategy.READ_AHEAD}
        case Framework.TORCH | Framework.FABRIC:
            fits = {Strategy.RESCALE, Strategy.READ_AHEAD}
        case _:
            fits = {Strategy.RESCALE}
    if strategy not in {Strategy.AUTO, *fits}:
        (only,) = fits
        raise DeclinedError(f'only strategy "{only.value}" fits here, and "{strategy.value}" is asked for')
    match site.framework:
        case Framework.DEEPSPEED:
            return read_ahead(tree, site)
        case Framework.TORCH | Framework.FABRIC if strategy is Strategy.READ_AHEAD or _has_terms_beside(site, strategy):
            return read_ahead(tree, site)
        case Framework.LIGHTNING if site.backward.subject == AUTOMATIC:
            return in_hook(tree, site)
        case Framework.IGNITE:
            return in_handlers(tree, site)
        case _:
            return rescale(tree, site, peers)


def _has_terms_beside(site: Site, strategy: Strategy) -> bool:
    """Whether the gradients hold terms that another number divides: only the loss can keep them apart."""
    return strategy is Strategy.AUTO and any(term.beside for term in site.terms)


_ORDER = [Applicability.SAFE, Applicability.UNSAFE, Applicability.DISPLAY]
_MOVED: tuple[tuple[str, EventKind, Callable[[Tree, Site, Spot], Plan]], ...] = (
    ("GA203", EventKind.CLEAR, order.clear),
    ("GA204", EventKind.CLIP, order.clip),
    ("GA205", EventKind.SCHEDULE, order.schedule),
)

_SCALED: tuple[tuple[str, Callable[[Tree, Site], Plan]], ...] = (
    ("GA401", scale.shifted),
    ("GA402", scale.everywhere),
    ("GA501", scale.reported_once),
)


def _moved(site: Site, kind: EventKind, code: str) -> Spot:
    """The event that a rule spoke of: the first of its kind inside the window."""
    for event in site.happening(kind):
        match kind:
            case EventKind.CLIP:
                if event.order > site.backward.order:
                    return event.spot
            case EventKind.SCHEDULE:
                if event.value is None and site.within_window(event):
                    return event.spot
            case _:
                if site.within_window(event):
                    return event.spot
    raise DeclinedError(f"what {code} speaks of is not in sight")


def _is_by_steps(site: Site) -> bool:
    return any(t.divided_by(Divisor.STEPS) and not t.divided_by(Divisor.WINDOW_ITEMS) for t in site.terms)


def _needs_rescale(site: Site) -> bool:
    """Whether dividing once by the steps would still be wrong."""
    return any(t.varies and t.scale is Scale.MEAN for t in site.terms)


def _once(tree: Tree, site: Site) -> Plan:
    """Drop the code's own division: the other one stays.

    Raises:
        DeclinedError: the code is itself what others call to go backward.
    """
    here = next(iter(tree.at(site.backward.spot)), None)
    if here is not None and getattr(tree.function_of(here), "name", "") == "backward":
        raise DeclinedError("the division is that of a `backward` which others call")
    found: dict[object, Division] = {}
    for term in site.terms:
        below = term.divided_by(Divisor.STEPS)
        own = [d for d in below if d.author is Author.CODE]
        for division in own if len(own) < len(below) else own[:1]:
            found[division.spot] = division
    parts = frozenset(part for division in found.values() for part in dropped(tree, division))
    return Plan(parts, Applicability.SAFE, "Divide once")
