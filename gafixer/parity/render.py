"""The figures of `gafixer verify` as lines of text and as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gafixer import __version__
from gafixer.parity.verify import misses, pairs, releases, summarise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.parity.divides import Division
    from gafixer.parity.measure import Outcome, Setting
    from gafixer.parity.runner import HeadReport
    from gafixer.parity.verify import Pair

__all__ = ["closing", "head_lines", "header", "to_json"]

_NAME, _VARIANT, _CELL = 42, 22, 34
_READING = (
    "ratio: the step's gradient norm over the right one; G microbatches make a window.",
    "  G or 1/G, cosine 1     a scale: divided by nobody, or twice",
    "  another, cosine 1      a wrong divisor, such as labels counted that the model shifts away",
    "  cosine below 1         weights: a mean of means, so the step goes in another direction",
)


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    figures = outcome.figures
    if figures is None:
        return outcome.trouble.value if outcome.trouble else ""
    logged = "" if figures.logged is None else f"{figures.logged / figures.loss:8.4f}" if figures.loss else ""
    return f"{figures.ratio:8.4f} {figures.cosine:7.4f} {figures.error:8.1e} {logged}"


def header(patch: bool) -> str:
    """The names of the columns. `logged` is the logged loss over the true one."""
    columns = f"{'ratio':>8} {'cosine':>7} {'error':>8} {'logged':>8}"
    groups = f"{'':{_NAME}} {'':{_VARIANT}} {'as it is':{_CELL}} {'patched' if patch else ''}".rstrip()
    names = f"{'head':{_NAME}} {'variant':{_VARIANT}} {columns:{_CELL}} {columns if patch else ''}".rstrip()
    return f"{groups}\n{names}\n"


def _line(name: str, pair: Pair) -> str:
    before, after = _cell(pair.before), _cell(pair.after)
    decisive = pair.decisive
    verdict = decisive.figures.verdict.value if decisive.figures is not None else decisive.reason
    text = f"{name:{_NAME}} {pair.variant:{_VARIANT}} {before:{_CELL}} {after:{_CELL if pair.after else 0}}"
    mark = "ok" if pair.ok else verdict
    held = decisive.figures.held.value if decisive.figures is not None else ""
    note = f" (held to {held})" if held.startswith("weighted") else ""
    return f"{text.rstrip()} {mark}{note}\n"


def head_lines(report: HeadReport) -> str:
    """A line per variant that runs; a head that runs none has its reason in one line."""
    built = [pair for pair in pairs(report) if pair.built]
    if not built:
        reason = next((o.reason for o in report.outcomes if o.reason), "no variant")
        return f"{report.head.name:{_NAME}} not built: {reason}\n"
    return "".join(_line(report.head.name, pair) for pair in built)


def closing(reports: Sequence[HeadReport], divisions: Sequence[Division], patch: bool) -> str:
    """Who divides, the summary by task, and what misses the bound."""
    versions = ", ".join(f"{name} {version}" for name, version in releases().items())
    lines = ["", f"Who divides ({versions}), before any patch:"]
    lines += [f"  {d.loss.value:46} {d.ratio:6.2f}  {d.verdict}" for d in divisions]
    lines += ["", f"{'task':30} {'heads':>6} {'built':>6} {'right':>6}{' patched' if patch else ''}"]
    summaries = summarise(reports, patch)
    for s in summaries:
        after = "" if s.right_after is None else f" {s.right_after:7}"
        lines.append(f"{s.task.value:30} {s.heads:6} {s.built:6} {s.right_before:6}{after}")
    after = f" {sum(s.right_after or 0 for s in summaries):7}" if patch else ""
    totals = [sum(getattr(s, name) for s in summaries) for name in ("heads", "built", "right_before")]
    lines.append(f"{'all':30} {totals[0]:6} {totals[1]:6} {totals[2]:6}{after}")
    wrong = [report for report in reports if misses(report)]
    if wrong:
        lines += ["", f"{len(wrong)} {'head misses' if len(wrong) == 1 else 'heads miss'} the bound:"]
        lines += [_miss(report) for report in wrong]
    if any(not pair.before.ok for report in reports for pair in pairs(report) if pair.proven):
        lines += ["", *_READING]
    return "\n".join(lines) + "\n"


def _miss(report: HeadReport) -> str:
    """One line for a head that misses: the variant that is furthest off, and how many there are."""
    found = misses(report)
    worst = max(found, key=lambda p: math.inf if p.decisive.figures is None else p.decisive.figures.error)
    outcome = worst.decisive
    why = outcome.figures.meaning if outcome.figures is not None else outcome.reason
    return f"  {report.head.name}: {why} ({worst.variant}; {len(found)} of {len(pairs(report))} variants)"


def _number(value: float | None) -> float | None:
    """JSON knows no NaN."""
    return value if value is not None and math.isfinite(value) else None


def _outcome(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    figures = outcome.figures
    if figures is None:
        return {"trouble": outcome.trouble.value if outcome.trouble else None, "reason": outcome.reason}
    return {
        "verdict": figures.verdict.value,
        "ratio": _number(figures.ratio),
        "cosine": _number(figures.cosine),
        "error": _number(figures.error),
        "bound": _number(figures.bound),
        "loss": _number(figures.loss),
        "logged": _number(figures.logged),
        "held_to": figures.held.value,
        "meaning": figures.meaning,
    }


def _head(report: HeadReport) -> dict[str, Any]:
    return {
        "name": report.head.name,
        "module": report.head.module,
        "task": report.head.task.value,
        "seconds": round(report.seconds, 2),
        "built": report.built,
        "variants": [
            {"name": pair.variant, "ok": pair.ok, "before": _outcome(pair.before), "after": _outcome(pair.after)}
            for pair in pairs(report)
        ],
    }


def to_json(
    reports: Sequence[HeadReport], divisions: Sequence[Division], setting: Setting, patch: bool
) -> dict[str, Any]:
    """Everything, for other programs. Version 1."""
    return {
        "version": 1,
        "gafixer": __version__,
        "releases": releases(),
        "setting": {
            "device": setting.device,
            "dtype": str(setting.dtype).removeprefix("torch."),
            "steps": setting.steps,
            "processes": setting.processes,
            "compile": setting.compiled,
            "patch": patch,
        },
        "divides": [
            {"loss": d.loss.value, "steps": d.steps, "ratio": d.ratio, "verdict": d.verdict} for d in divisions
        ],
        "tasks": [
            {
                "task": s.task.value,
                "heads": s.heads,
                "built": s.built,
                "right_before": s.right_before,
                "right_after": s.right_after,
            }
            for s in summarise(reports, patch)
        ],
        "heads": [_head(report) for report in reports],
    }
