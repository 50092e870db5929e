"""GA302: an override whose signature Trainer's call doesn't fit, from 4.46 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gafixer.analysis import requirements
from gafixer.analysis.flow import Maker
from gafixer.analysis.overrides import Kind
from gafixer.findings import Related, Role, Severity
from gafixer.rulebook import Rule
from gafixer.wording import finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.overrides import OverrideSite
    from gafixer.analysis.requirements import Target
    from gafixer.findings import Finding


def check(override: OverrideSite, target: Target) -> Iterator[Finding]:
    """At the signature."""
    if not override.missing:
        return
    name, since = override.missing[0]
    fails = requirements.since(target.newest, since)
    yield finding(
        RULE,
        override,
        override.spot,
        _message(override, name, since, target, fails=fails),
        severity=Severity.ERROR if fails else _while_pinned(override),
        help_=f"add {name}=None to the signature, and divide by it or hand it on",
        related=[
            Related(Role.MEAN, override.place(call.via or call.spot), "the mean of one microbatch")
            for call in override.losses
        ],
    )


def _while_pinned(override: OverrideSite) -> Severity:
    """The call fits the releases that are allowed: what remains is a mean of means, if counts vary."""
    known = any(call.maker is Maker.CRITERION for call in override.losses)
    return Severity.INFO if known and override.varies is None else Severity.WARNING


def _message(override: OverrideSite, name: str, since: str, target: Target, *, fails: bool) -> str:
    caller = "the head calls it" if override.kind is Kind.LOSS_ENTRY else "Trainer calls it"
    if fails:
        return f"{override.title} does not take {name}: {caller} with it from Transformers {since} on, a TypeError"
    return (
        f"{override.title} does not take {name}: in {target.name} each microbatch's mean is divided by the steps, "
        f"whatever it counts, and from {since} on the call is a TypeError"
    )


RULE = Rule(
    "GA302",
    "num-items-missing",
    "An override of a Trainer's part has a signature that fails from Transformers 4.46 on.",
    check_override=check,
)
