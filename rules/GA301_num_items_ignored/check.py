"""GA301: an override that takes the window's count and divides by something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.flow import Honours, Maker
from gafixer.analysis.measured import settled
from gafixer.analysis.overrides import Kind
from gafixer.data.transformers import COUNT, Division
from gafixer.findings import Confidence, Related, Role, Severity
from gafixer.rulebook import Rule
from gafixer.wording import finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.flow import LossCall
    from gafixer.analysis.overrides import OverrideSite
    from gafixer.analysis.requirements import Target
    from gafixer.findings import Finding


def check(override: OverrideSite, target: Target) -> Iterator[Finding]:
    """At the signature: there the count arrives."""
    if override.uncounted and not override.undivided:
        yield from _uncounted(override, target)
    # A step of one's own that goes backward takes the place of the one that obeys the switch.
    if override.taken is None or override.missing or (override.undivided and not override.sends):
        return
    dropped = [call for call in override.losses if call.honours is Honours.NO]
    if not dropped:
        yield from _dropped_by_head(override, target)
        return
    yield finding(
        RULE,
        override,
        override.spot,
        _message(override, dropped, target),
        severity=_severity(override, target),
        confidence=Confidence.MEDIUM if override.mentions else Confidence.HIGH,
        help_="sum the loss and divide it by the count, hand the count on, or tell Trainer after super().__init__(): "
        "self.model_accepts_loss_kwargs = False",
        related=[
            *(Related(Role.MEAN, override.place(call.spot), _what(call)) for call in dropped),
            *(
                Related(Role.MEAN, override.place(call.mean), "and becomes a mean here")
                for call in dropped
                if call.mean is not None
            ),
            *(
                Related(Role.MEAN, override.place(call.via), "through this call")
                for call in dropped
                if call.via is not None
            ),
        ],
    )


def _dropped_by_head(override: OverrideSite, target: Target) -> Iterator[Finding]:
    """The count is handed to the model, and the heads that the file names were measured to drop it."""
    lost = [
        call
        for call in settled(override.losses, {Maker.MODEL}, override.heads, target.newest)
        if call.honours is Honours.NO
    ]
    if not lost or target.division is Division.ACCELERATE or override.divides:
        return
    names = ", ".join(override.heads[:3])
    yield finding(
        RULE,
        override,
        override.spot,
        f"{override.title} hands {COUNT} to the model, but {names} drops it: nobody divides, and the gradient is "
        f"gradient_accumulation_steps times too big ({target.name})",
        severity=Severity.WARNING,
        help_="import gafixer.patch before training, or sum the loss here and divide it by the count",
        related=[Related(Role.MEAN, override.place(call.spot), "handed on here") for call in lost],
    )


def _uncounted(override: OverrideSite, target: Target) -> Iterator[Finding]:
    """Microbatches without their count: `Trainer` divides by the steps, or believes that the model does."""
    if target.division in {Division.ACCELERATE, Division.NOBODY}:
        return
    result = (
        "where the model takes loss kwargs nobody divides: the gradient is gradient_accumulation_steps times too big"
        if target.division is Division.TRAINER
        else "each microbatch's mean weighs the same, whatever it counts"
    )
    yield finding(
        RULE,
        override,
        override.spot,
        f"{override.title} hands over no {COUNT}: {result} ({target.name})",
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        help_="return the window's count beside its microbatches, as super().get_batch_samples does",
    )


def _severity(override: OverrideSite, target: Target) -> Severity:
    if target.division is Division.ACCELERATE or override.divides:
        return Severity.INFO
    if override.sends:
        return _own_step(override, target)
    used = any(call.honours is Honours.YES for call in override.losses)
    return Severity.WARNING if used or override.mentions or override.flags else Severity.ERROR


def _own_step(override: OverrideSite, target: Target) -> Severity:
    """Of a step that goes backward by itself: nobody else divides, unless Accelerate still does."""
    if target.division is Division.TRAINER_AND_ACCELERATE:
        return Severity.INFO
    return Severity.WARNING if all(call.maker is Maker.UNSEEN for call in override.losses) else Severity.ERROR


def _message(override: OverrideSite, dropped: list[LossCall], target: Target) -> str:
    how = "takes" if override.taken == COUNT else f"swallows in {override.taken}"
    part = " for one of its losses" if any(call.honours is Honours.YES for call in override.losses) else ""
    told = f"{override.title} {how} {COUNT} and does not use it{part}"
    if override.divides or target.division is Division.ACCELERATE:
        return f"{told}: each microbatch's mean weighs the same, whatever it counts"
    if override.sends:
        return (
            f"{told}: it goes backward by itself, so that nobody divides, "
            f"and the gradient is gradient_accumulation_steps times too big ({target.name})"
        )
    if override.kind is Kind.LOSS_FUNCTION:
        return (
            f"{told}: Trainer leaves the division to it, so the gradient is gradient_accumulation_steps times too big"
        )
    return (
        f"{told}: where the model takes loss kwargs Trainer leaves the division to it, and the gradient is "
        f"gradient_accumulation_steps times too big ({target.name})"
    )


def _what(call: LossCall) -> str:
    match call.maker:
        case Maker.MODEL | Maker.SUPER:
            return "this loss is a mean: the count isn't handed on"
        case _ if call.mean is not None:
            return "this loss is made of one microbatch's items"
        case _:
            return "this loss is a mean over one microbatch"


RULE = Rule(
    "GA301",
    "num-items-ignored",
    "A compute_loss, a compute_loss_func or a LOSS_MAPPING entry takes the window's count and does not use it.",
    check_override=check,
)
