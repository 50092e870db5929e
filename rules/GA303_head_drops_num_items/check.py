"""GA303: a head that promises to divide by the window's count, and whose loss never sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.flow import Honours, Maker
from gafixer.data.transformers import COUNT, Division
from gafixer.findings import Confidence, Related, Role, Severity
from gafixer.rulebook import Rule
from gafixer.wording import finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.flow import LossCall
    from gafixer.analysis.heads import HeadSite
    from gafixer.analysis.requirements import Target
    from gafixer.findings import Finding

_TOO_BIG = "the gradient is gradient_accumulation_steps times too big"


def check(head: HeadSite, target: Target) -> Iterator[Finding]:
    """At the loss that the count doesn't reach; one finding per loss, in the class that owns the forward."""
    if head.flag is not None or head.kwargs is None or not head.counted or head.inherited is not None:
        return
    dropped = [call for call in head.losses if call.honours in {Honours.NO, Honours.PARTLY}]
    for call in dropped[:1] if len({c.honours for c in dropped}) == 1 else dropped:
        yield finding(
            RULE,
            head,
            head.own(call.spot),
            _message(head, call, target),
            severity=_severity(head, call, target),
            confidence=Confidence.HIGH if head.library else Confidence.MEDIUM,
            help_=_help(call, head.kwargs),
            related=_around(head, call, dropped),
        )


def _severity(head: HeadSite, call: LossCall, target: Target) -> Severity:
    if call.honours is Honours.PARTLY or not head.library:
        return Severity.INFO
    # A head with two losses is right in one of them; before 4.46 nobody handed over a count.
    mixed = any(other.honours is Honours.YES for other in head.losses)
    return Severity.WARNING if mixed or target.division is Division.ACCELERATE else Severity.ERROR


def _message(head: HeadSite, call: LossCall, target: Target) -> str:
    promise = f"**{head.kwargs} of {head.name}.forward promises Trainer to divide by {COUNT}"
    if call.honours is Honours.PARTLY:
        return (
            f"{promise}, but the library's {call.name} loss does so for one label a sample only: for regression and "
            f"several labels {_TOO_BIG}"
        )
    return f"{promise}, but {_loss(call)} never sees it: {_consequence(target)}"


def _loss(call: LossCall) -> str:
    match call.maker:
        case Maker.LIBRARY:
            return "loss_function(...)"
        case Maker.MODEL | Maker.SUPER:
            return f"the loss of {call.name}(...)"
        case Maker.REDUCTION:
            return "the mean"
        case _:
            return call.name


def _consequence(target: Target) -> str:
    match target.division:
        case Division.TRAINER_AND_ACCELERATE:
            return f"each microbatch's mean weighs the same, whatever it counts ({target.name})"
        case Division.ACCELERATE:
            return f"from Transformers 4.46 on {_TOO_BIG} (the project has {target.name})"
        case _:
            return f"{_TOO_BIG} ({target.name})"


def _help(call: LossCall, kwargs: str) -> str:
    if call.maker in {Maker.LIBRARY, Maker.MODEL, Maker.SUPER, Maker.FUNCTION}:
        return f"hand **{kwargs} on to it"
    return f'sum the loss and divide it by {kwargs}["{COUNT}"] where that is given'


def _around(head: HeadSite, call: LossCall, dropped: list[LossCall]) -> Iterator[Related]:
    yield Related(Role.MEAN, head.place(call.spot), "this loss averages over one microbatch")
    yield Related(Role.COUNT, head.place(head.forward), f"**{head.kwargs} takes the count here")
    for other in dropped:
        if other != call:
            yield Related(Role.MEAN, head.place(other.spot), "so does this one")


RULE = Rule(
    "GA303",
    "head-drops-num-items",
    "A head takes the window's count and does not divide its loss by it.",
    check_head=check,
)
