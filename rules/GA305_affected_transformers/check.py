"""GA305: the requirements allow releases of Transformers in which what is used here gets wrong gradients."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gafixer.analysis import requirements
from gafixer.analysis.measured import measured
from gafixer.data.heads import Count
from gafixer.data.transformers import Division
from gafixer.findings import Applicability, Confidence, Edit, Finding, Fix, Related, Role, Severity
from gafixer.rulebook import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.requirements import Requirement, Target
    from gafixer.analysis.uses import Uses

_STEPS = "gradient_accumulation_steps"


def check(uses: Uses, target: Target) -> Iterator[Finding]:
    """At the requirement."""
    if target.said is None:
        return
    divisions = target.divisions()
    wrong = {who: releases for who, releases in divisions.items() if _fault(who, uses, releases[-1]) is not None}
    if not wrong:
        return
    last = list(wrong)[-1]
    everything = wrong.keys() == divisions.keys()
    fault = _fault(last, uses, wrong[last][-1])
    help_ = "import gafixer.patch before training"
    related = [Related(Role.BACKWARD, uses.place(uses.trainer), f"trains {', '.join(uses.heads)}")]
    if uses.steps is not None and uses.steps.spot.path == uses.path:
        related.append(Related(Role.EVIDENCE, uses.place(uses.steps.spot), uses.steps.message))
    yield Finding(
        RULE.code,
        RULE.name,
        f"{_allowed(wrong, target)}: {_heads(uses)} under gradient accumulation, {fault}",
        _severity(uses, everything=everything),
        Confidence.MEDIUM,
        target.said.place,
        tuple(related),
        help_ if everything else f"{help_}, or require {_right(divisions, wrong, target)}",
        _fix(uses, wrong, target, target.said),
    )


def _fix(uses: Uses, wrong: dict[Division, list[str]], target: Target, said: Requirement) -> Fix:
    """The releases in which it is right, as a requirement; where there are none, the import that mends them."""
    narrowed = _narrowed([r for releases in wrong.values() for r in releases], target, said)
    if narrowed is None:
        trained = uses.place(uses.trainer)
        row = trained.span.start.row
        message = f"put `import gafixer.patch` at the top of {trained.filename}, which trains in line {row}"
        return Fix(Applicability.DISPLAY, message)
    return Fix(Applicability.UNSAFE, f"Require {narrowed}", (Edit(said.place.span, narrowed),))


def _narrowed(wrong: list[str], target: Target, said: Requirement) -> str | None:
    """The requirement with bounds around the newest releases that are right; None where none are, or it is pinned."""
    name = re.fullmatch(r"(transformers(?:\[[^\]\n]*\])?)[ \t]*((?:[<>=!]=?)?.*)", said.written)
    clauses = [clause for clause in said.specifier.split(",") if clause]
    if name is None or any(not clause.startswith((">", "<", "!")) for clause in clauses):
        return None
    right = [release not in wrong for release in target.releases]
    if True not in right:
        return None
    last = len(right) - 1 - right[::-1].index(True)
    first = last
    while first > 0 and right[first - 1]:
        first -= 1
    kept = [clause for clause in clauses if not clause.startswith(">")]
    if last + 1 < len(right):
        kept = [f"<{requirements.short(target.releases[last + 1])}", *(c for c in kept if c.startswith("!"))]
    return f"{name[1]}{','.join([f'>={requirements.short(target.releases[first])}', *kept])}"


def _severity(uses: Uses, *, everything: bool) -> Severity:
    if uses.steps is None:
        return Severity.INFO
    return Severity.ERROR if everything else Severity.WARNING


def _fault(who: Division, uses: Uses, release: str) -> str | None:
    """What goes wrong with these heads where this one divides: as measured, else by what heads are called."""
    known = measured(uses.heads, release)
    if known is not None and requirements.division(known.release) is who:
        return _seen(known.verdicts)
    if known is not None and all(contract.count is Count.DIVIDES for contract in known.contracts):
        return _by_steps(who, uses) if who in {Division.ACCELERATE, Division.TRAINER_AND_ACCELERATE} else None
    return _by_steps(who, uses)


def _seen(verdicts: frozenset[str]) -> str | None:
    """What was seen to go wrong."""
    if "sum of means" in verdicts:
        return f"the gradient is {_STEPS} times too big where the head drops the count"
    if verdicts & {"mean of means", "weights", "scaled"}:
        return "each microbatch's mean weighs the same, whatever it counts"
    return None


def _by_steps(who: Division, uses: Uses) -> str | None:
    """What goes wrong with heads of these names."""
    match who:
        case Division.ACCELERATE:
            return (
                "each microbatch's mean weighs the same, whatever it counts" if uses.tokens and not uses.fixed else None
            )
        case Division.NOBODY:
            return f"the gradient of most heads is {_STEPS} times too big"
        case Division.TRAINER_AND_ACCELERATE:
            return f"the loss is divided twice: the gradient is {_STEPS} times too small, or a mean of means"
        case Division.TRAINER if not uses.causal:
            return f"each microbatch's mean weighs the same, or the gradient is {_STEPS} times too big"
        case Division.TRAINER_WITH_COUNT if not uses.causal:
            return f"the gradient is {_STEPS} times too big where the head drops the count"
        case _:
            return None


def _allowed(wrong: dict[Division, list[str]], target: Target) -> str:
    ranges = _ranges([r for releases in wrong.values() for r in releases], target)
    said = target.said.specifier if target.said is not None and target.said.specifier else "any release"
    return f"transformers ({said}) may be {', '.join(ranges)}"


def _ranges(chosen: list[str], target: Target) -> list[str]:
    """Runs of releases that follow each other among those that are allowed."""
    runs: list[list[str]] = []
    last = None
    for release in target.releases:
        if release in chosen:
            if last is None:
                runs.append([])
            runs[-1].append(release)
        last = release if release in chosen else None
    return [_range(run) for run in runs]


def _range(releases: list[str]) -> str:
    first, last = requirements.short(releases[0]), requirements.short(releases[-1])
    return first if first == last else f"{first} to {last}"


def _heads(uses: Uses) -> str:
    names = ", ".join(uses.heads[:3]) + (" and others" if len(uses.heads) > 3 else "")
    return f"with {names}"


def _right(divisions: dict[Division, list[str]], wrong: dict[Division, list[str]], target: Target) -> str:
    right = [r for who, releases in divisions.items() if who not in wrong for r in releases]
    return ", ".join(_ranges(right, target))


RULE = Rule(
    "GA305",
    "affected-transformers",
    "The requirements allow a release of Transformers in which the heads used here get wrong gradients.",
    check_uses=check,
)
