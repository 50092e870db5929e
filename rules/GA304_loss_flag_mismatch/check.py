"""GA304: a switch that tells Trainer who divides, and a loss that does something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis.flow import Honours, Maker
from gafixer.analysis.measured import settled
from gafixer.data.transformers import COUNT
from gafixer.findings import Related, Role, Severity
from gafixer.rulebook import Rule
from gafixer.wording import finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.heads import Flag, HeadSite
    from gafixer.analysis.overrides import OverrideSite
    from gafixer.analysis.requirements import Target
    from gafixer.findings import Finding

#: What makes a loss that is the library's, whatever is handed to it.
_LIBRARY = frozenset({Maker.MODEL, Maker.SUPER})
_TOO_BIG = "its loss is a mean: the gradient is gradient_accumulation_steps times too big"
_TOO_SMALL = "the gradient is gradient_accumulation_steps times too small"
_MEANS = "Trainer takes a mean of the microbatches' means"


def check_head(head: HeadSite, target: Target) -> Iterator[Finding]:
    """At the switch of a head, or at the class whose base sets it."""
    flag = head.flag
    if flag is None or not head.counted or not head.losses or head.inherited is not None:
        return
    bases = (head.base,) if head.base is not None else ()
    honours = {call.honours for call in settled(head.losses, _LIBRARY, bases, target.newest)}
    if flag.value and Honours.NO in honours:
        said = f"tells Trainer that {head.name} divides by {COUNT}, but {_TOO_BIG}"
        yield _finding(head, flag, target, f"{flag.name} = True {said}", Severity.ERROR)
    elif not flag.value and honours == {Honours.YES} and head.kwargs is not None:
        said = f"keeps {COUNT} from {head.name}, which would divide by it: {_MEANS}"
        yield _finding(head, flag, target, f"{flag.name} = False {said}", Severity.WARNING)


def check_override(override: OverrideSite, target: Target) -> Iterator[Finding]:
    """At the switch of a Trainer."""
    if override.name != "compute_loss":
        return
    for flag in override.lost:
        said = f"is set before Trainer's __init__ sets it anew from the model: it has no effect on {override.title}"
        yield _finding(override, flag, target, f"{flag.name} = {flag.value} {said}", Severity.ERROR)
    honours = {call.honours for call in settled(override.losses, _LIBRARY, override.heads, target.newest)}
    for flag in override.flags:
        if flag.name == "loss_is_scaled_for_ga" and not flag.value and honours == {Honours.YES}:
            said = f"lets Trainer divide by the steps, but {override.title} has divided by {COUNT}: {_TOO_SMALL}"
            yield _finding(override, flag, target, f"{flag.name} = False {said}", Severity.ERROR)
        elif flag.name == "model_accepts_loss_kwargs" and not flag.value and Honours.YES in honours:
            said = f"keeps {COUNT} from {override.title}, which would hand it on: {_MEANS}"
            yield _finding(override, flag, target, f"{flag.name} = False {said}", Severity.WARNING)
        elif flag.value and honours == {Honours.NO}:
            said = f"tells Trainer that {override.title} divides by {COUNT}, but {_TOO_BIG}"
            yield _finding(override, flag, target, f"{flag.name} = True {said}", Severity.ERROR)


def _finding(subject: HeadSite | OverrideSite, flag: Flag, target: Target, message: str, severity: Severity) -> Finding:
    return finding(
        RULE,
        subject,
        subject.own(flag.spot),
        f"{message} ({target.name})",
        severity=severity,
        help_="make the switch say what the loss does",
        related=[
            Related(Role.MEAN, subject.place(call.spot), f"this loss {call.honours.value}")
            for call in subject.losses
            if call.honours is not Honours.YES
        ],
    )


RULE = Rule(
    "GA304",
    "loss-flag-mismatch",
    "A switch tells Trainer something else than the loss does with the window's count.",
    check_head=check_head,
    check_override=check_override,
    flagged_heads=True,
)
