"""The report of `gafixer verify` as one page that needs nothing beside itself: no network, no other file."""

from __future__ import annotations

import json
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from gafixer.parity.page.charts import histogram, losses, span
from gafixer.parity.render import to_json
from gafixer.parity.verify import pairs, summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gafixer.parity.curves import Curve
    from gafixer.parity.divides import Division
    from gafixer.parity.measure import Outcome, Setting
    from gafixer.parity.runner import HeadReport

__all__ = ["page"]


def page(
    reports: Sequence[HeadReport],
    divisions: Sequence[Division],
    setting: Setting,
    patch: bool,
    *,
    curves: Sequence[Curve] = (),
    trained: str = "",
) -> str:
    """The page as text. `trained` is the head that the curves are of."""
    facts = to_json(reports, divisions, setting, patch)
    parts = {
        "TITLE": f"transformers {facts['releases']['transformers']} · gafixer verify",
        "LEAD": _lead(reports, facts, patch),
        "CURVES": _curves(curves, trained),
        "RATIOS": _ratios(reports),
        "TASKS": _tasks(reports, patch),
        "DIVIDES": _divides(divisions),
        "SETTING": _setting(facts),
    }
    text = _file("page.html")
    for name, part in parts.items():
        text = text.replace(f"@{name}@", escape(part) if name == "TITLE" else part)
    # Last: their texts may hold anything, marks of the page too.
    text = text.replace("@STYLE@", _file("page.css"))
    return text.replace("@SCRIPT@", _file("page.js")).replace("@FACTS@", _inside_script(facts))


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _inside_script(facts: Any) -> str:
    """JSON that can't end the element it stands in."""
    return json.dumps(facts, separators=(",", ":")).replace("<", "\\u003c").replace("\u2028", "\\u2028")


def _lead(reports: Sequence[HeadReport], facts: dict[str, Any], patch: bool) -> str:
    summaries = summarise(reports, patch)
    built, before = sum(s.built for s in summaries), sum(s.right_before for s in summaries)
    after = sum(s.right_after or 0 for s in summaries)
    release = escape(f"transformers {facts['releases']['transformers']}")
    figures = _share("as released", before, built, "before")
    if patch:
        figures += _share("with gafixer.patch", after, built, "after")
    return (
        f"<p class=lead>{built} of {len(reports)} heads of <b>{release}</b> were built tiny and at random, and trained "
        f"for one step of {facts['setting']['steps']} uneven microbatches by the real <code>Trainer</code>. "
        "Its gradient should be that of the same samples in one batch.</p>"
        f'<div class="shares">{figures}</div>'
    )


def _share(label: str, right: int, built: int, kind: str) -> str:
    percent = 100 * right / built if built else 0
    return (
        f'<div class="share {kind}"><span class=number>{right}</span> '
        f"<span class=of>of {built} right {escape(label)}</span>"
        f'<div class=track><div class=fill style="width:{percent:.2f}%"></div></div></div>'
    )


def _curves(curves: Sequence[Curve], trained: str) -> str:
    if not curves:
        return ""
    between = span(curves)
    figures = []
    for patched, title in ((False, "As released"), (True, "With gafixer.patch")):
        shown = [c for c in curves if c.patched is patched]
        if shown:
            figures.append(
                f"<figure><figcaption>{title}<small>{escape(_apart(shown))}</small></figcaption>"
                f"{losses(shown, between, f'{title}: training loss')}</figure>"
            )
    ways = [c.split.name for c in curves if not c.patched]
    legend = "".join(f'<span><i class="key split{i}"></i>{escape(name)}</span>' for i, name in enumerate(ways))
    return (
        "<section><h2>One global batch of 32, split five ways</h2>"
        f"<p>{escape(trained)}, plain SGD, the same start and the same 32 samples at every step; only the split "
        "differs: samples per microbatch × microbatches (× processes). The curves should be one.</p>"
        f'<div class="legend">{legend}</div><div class="pair">{"".join(figures)}</div></section>'
    )


def _apart(curves: Sequence[Curve]) -> str:
    """How far the curves part from the one whose batch isn't split."""
    one, *others = curves
    gaps = [abs(a - b) for c in others for a, b in zip(c.losses, one.losses, strict=True)]
    return f"at most {max(gaps):.2g} apart" if all(gap == gap for gap in gaps) else "some end in NaN"


def _figures(outcomes: Iterable[Outcome | None]) -> list[float]:
    return [o.figures.ratio for o in outcomes if o is not None and o.figures is not None]


def _ratios(reports: Sequence[HeadReport]) -> str:
    both = [pair for report in reports for pair in pairs(report) if pair.proven]
    before, after = _figures(p.before for p in both), _figures(p.after for p in both)
    if not before:
        return ""
    below = ", below the axis with the patch" if after else ""
    return (
        "<section><h2>Gradient norm over the right one</h2>"
        f"<p>Variants by the ratio of norms: above the axis as released{below}. Right is 1. "
        "Bars grow with the square root of their count.</p>"
        f'<div class="scroll">{histogram(before, after)}</div></section>'
    )


def _tasks(reports: Sequence[HeadReport], patch: bool) -> str:
    rows = []
    for s in summarise(reports, patch):
        after = "" if s.right_after is None else f"<td>{_meter(s.right_after, s.built, 'after')}</td>"
        rows.append(
            f"<tr><th scope=row>{escape(s.task.value)}</th><td class=n>{s.heads}</td><td class=n>{s.built}</td>"
            f"<td>{_meter(s.right_before, s.built, 'before')}</td>{after}</tr>"
        )
    last = "<th scope=col>right, patched</th>" if patch else ""
    return (
        '<table class="plain" id="tasks"><thead><tr><th scope=col>task</th><th scope=col class=n>heads</th>'
        f"<th scope=col class=n>built</th><th scope=col>right as released</th>{last}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _meter(part: int, whole: int, kind: str) -> str:
    if not whole:
        return "–"
    percent = 100 * part / whole
    return (
        f'<span class="meter {kind}"><span class=track><span class=fill style="width:{percent:.1f}%"></span></span>'
        f"<span class=value>{part}</span></span>"
    )


def _divides(divisions: Sequence[Division]) -> str:
    rows = "".join(
        f"<tr><th scope=row>{escape(d.loss.value)}</th><td class=n>{d.ratio:.4g}</td><td>{escape(d.verdict)}</td></tr>"
        for d in divisions
    )
    return (
        "<table class=plain><thead><tr><th scope=col>loss</th><th scope=col class=n>ratio</th>"
        f"<th scope=col>divided by</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _setting(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts["releases"].items())
    s = facts["setting"]
    how = f"{s['dtype']} on {s['device']}, {s['steps']} microbatches"
    how += f", {s['processes']} processes" if s["processes"] > 1 else ""
    how += ", compiled" if s["compile"] else ""
    return escape(f"{versions} · {how} · gafixer {facts['gafixer']}")
