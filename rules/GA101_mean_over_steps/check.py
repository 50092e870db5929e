"""GA101: a mean over each microbatch, divided by the number of microbatches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.events import Framework
from gafixer.analysis.site import Divisor, Items, Scale, Variation
from gafixer.analysis.values import Author, Kind
from gafixer.analysis.windows import Shape
from gafixer.findings import Confidence, Related, Role, Severity
from gafixer.rulebook import Rule
from gafixer.wording import around, finding, loss_name, steps_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.site import Division, LossTerm, Site
    from gafixer.findings import Finding


def check(site: Site) -> Iterator[Finding]:
    """One finding per site, at the division: all terms of a loss share it."""
    if not site.accumulates or site.window.shape is Shape.SINGLE:
        return
    # A mean over the microbatch of a term beside the loss is divided by the steps by right.
    found = [(term, d) for term in site.terms if not term.beside and (d := _division(term)) is not None]
    if not found:
        return
    found = [(t, d) for t, d in found if not _is_exact(site, t)]
    if not found:
        return
    term, division = max(found, key=lambda pair: _SEVERITY[pair[0].variation].rank)
    severity = _severity(site, term)
    place = site.backward.spot if division.author is Author.FRAMEWORK else division.spot
    yield finding(
        RULE,
        site,
        place,
        _message(site, term, division),
        severity=severity,
        confidence=_CONFIDENCE[term.variation],
        help_=_HELP.get(site.framework, _BY_COUNT),
        related=[
            *around(site, term, division),
            *(
                Related(Role.MEAN, site.place(other.atom.spot), "and so is this one")
                for other, _ in found
                if other != term
            ),
        ],
    )


_SEVERITY = {
    Variation.CERTAIN: Severity.ERROR,
    Variation.PROBABLE: Severity.WARNING,
    Variation.UNKNOWN: Severity.INFO,
    Variation.FIXED: Severity.INFO,
}
_CONFIDENCE = {
    Variation.CERTAIN: Confidence.HIGH,
    Variation.PROBABLE: Confidence.MEDIUM,
    Variation.UNKNOWN: Confidence.LOW,
    Variation.FIXED: Confidence.HIGH,
}


_BY_COUNT = "sum the loss over each microbatch, and divide the gradients by the window's num_items before the step"
_HELP = {
    Framework.COMPOSER: "Trainer(accumulate_train_batch_on_tokens=True), with batches that count their scored tokens",
    Framework.TRAINER: "sum the loss and divide it by num_items_in_batch, and tell Trainer after super().__init__(): "
    "self.model_accepts_loss_kwargs = True",
}


def _is_exact(site: Site, term: LossTerm) -> bool:
    """Whether all microbatches are equal, and no short last batch can come."""
    if site.framework is Framework.COMPOSER and term.items is Items.SAMPLES:
        return True
    return term.variation is Variation.FIXED and (site.drop_last is not None or not site.by_epoch)


def _division(term: LossTerm) -> Division | None:
    """The division by the steps, if nothing undoes it and no count of the window takes its place."""
    below, above = term.divided_by(Divisor.STEPS), term.times(Divisor.STEPS)
    if len(below) <= len(above) or term.divided_by(Divisor.WINDOW_ITEMS):
        return None
    return below[0]


def _severity(site: Site, term: LossTerm) -> Severity:
    severity = _SEVERITY[term.variation]
    if term.scale is Scale.UNKNOWN:
        return Severity.INFO
    if term.scale is Scale.SUM and (term.atom.kind is not Kind.LOSS or not term.varies):
        return Severity.INFO
    if severity is Severity.ERROR and (site.window.shape is Shape.UNSEEN or term.scale is Scale.SUM):
        return Severity.WARNING
    return severity


def _message(site: Site, term: LossTerm, division: Division) -> str:
    items = loss_name(term)
    by = steps_name(site) if division.author is Author.FRAMEWORK or division.value == site.steps else division.name
    subject = {Scale.SUM: f"a sum over {items}", Scale.UNKNOWN: "a loss that could not be followed"}.get(
        term.scale, "each microbatch's mean"
    )
    if division.author is Author.FRAMEWORK and site.framework is Framework.COMPOSER:
        return f"{subject} is weighed by Composer, by its share of the samples{_consequence(term, items)}"
    by_whom = f" by {site.framework.value}," if division.author is Author.FRAMEWORK else ""
    where = " (Transformers 4.48 and later)" if by_whom and site.framework is Framework.TRAINER else ""
    return f"{subject} is divided{by_whom} by {by}{_consequence(term, items)}{where}"


def _consequence(term: LossTerm, items: str) -> str:
    match term.scale, term.variation:
        case Scale.SUM, _:
            return f": the update grows with the {items} of a microbatch"
        case Scale.UNKNOWN, _:
            return ": right only if every microbatch counts as many items"
        case _, Variation.CERTAIN:
            return f", but the number of {items} varies: short microbatches weigh too much"
        case _, Variation.PROBABLE:
            return f": wrong as soon as the number of {items} varies"
        case _:
            return f": exact while all have as many {items}, so not for a short last batch"


RULE = Rule("GA101", "mean-over-steps", "A microbatch mean is divided by the number of steps, and counts vary.", check)
