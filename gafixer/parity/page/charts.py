"""The charts of the report, as inline SVG. Colours and fonts come from the page's style sheet, which knows the dark."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gafixer.parity.curves import Curve

__all__ = ["histogram", "losses", "span"]

_HEADROOM = 1.7  # of the first loss: a curve that climbs further leaves the chart at its top


@dataclass(frozen=True, slots=True)
class _Frame:
    """A plot's area inside of its picture, in units of the view box, and the values at its edges."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    x: tuple[float, float]
    y: tuple[float, float]

    def across(self, value: float) -> float:
        low, high = self.x
        return self.left + (value - low) / (high - low) * (self.width - self.left - self.right)

    def up(self, value: float) -> float:
        low, high = self.y
        return self.height - self.bottom - (value - low) / (high - low) * (self.height - self.top - self.bottom)


def _svg(frame: _Frame, title: str, body: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {frame.width:g} {frame.height:g}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(body)}</svg>"
    )


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def _rule(frame: _Frame, y: float) -> str:
    return f'<line class="rule" x1="{frame.left:g}" x2="{frame.width - frame.right:g}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _ticks(low: float, high: float) -> list[float]:
    """About four round numbers between them."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def span(curves: Sequence[Curve]) -> tuple[float, float]:
    """The losses at the foot and the top of every chart of these curves."""
    seen = [loss for curve in curves for loss in curve.losses if math.isfinite(loss)]
    return 0.9 * min(seen), min(1.05 * max(seen), _HEADROOM * curves[0].losses[0])


def losses(curves: Sequence[Curve], between: tuple[float, float], title: str) -> str:
    """Loss over optimizer steps, a line per split; the first is drawn widest, so that lines on top of it show."""
    frame = _Frame(520, 330, 40, 12, 12, 40, (0, len(curves[0].losses) - 1), between)
    body = [_rule(frame, frame.up(t)) + _text(34, frame.up(t) + 4, f"{t:g}", "tick", "end") for t in _ticks(*frame.y)]
    body += [_text(frame.across(t), 308, f"{t:g}", "tick") for t in _ticks(*frame.x) if t == int(t)]
    body.append(_text(frame.width / 2 + 14, 327, "optimizer step", "tick"))
    for place, curve in enumerate(curves):
        body.append(f'<path class="curve split{place}" d="{_path(frame, curve.losses)}"/>')
    return _svg(frame, title, body)


def _path(frame: _Frame, values: Sequence[float]) -> str:
    """A line that ends where it leaves the chart for good, and stays at its edge meanwhile."""
    parts = []
    for step, value in enumerate(values):
        if not math.isfinite(value):
            break
        parts.append(f"{frame.across(step):.1f} {frame.up(min(value, frame.y[1])):.1f}")
    return "M" + "L".join(parts)


_BINS = [i / 4 for i in range(-12, 17)]  # powers of two, from an eighth to sixteen


def histogram(before: Sequence[float], after: Sequence[float]) -> str:
    """How many variants have which norm ratio: as released above the axis, patched below."""
    up, down = _binned(before), _binned(after)
    most = max([*up.values(), *down.values(), 1])
    # Square root: the one bin that holds all would flatten every other.
    tall = math.sqrt(most)
    frame = _Frame(1040, 340, 12, 12, 26, 26, (_BINS[0] - 0.25, _BINS[-1] + 0.25), (-tall if after else 0.0, tall))
    wide = (frame.across(0.25) - frame.across(0)) - 4
    body = []
    for counts, kind, sign in ((up, "before", 1), (down, "after", -1)):
        for place, count in counts.items():
            y, base = frame.up(sign * math.sqrt(count)), frame.up(0) - sign * 11
            x, top, height = frame.across(place) - wide / 2, min(y - sign * 11, base), abs(base - (y - sign * 11))
            body.append(
                f'<rect class="{kind}" x="{x:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{height:.1f}" rx="2"/>'
            )
            body.append(_text(x + wide / 2, y - sign * 11 + (-5 if sign > 0 else 14), f"{count}", "count"))
    body += [_text(frame.across(p), frame.up(0) + 5, _power(p), "tick" + " one" * (p == 0)) for p in range(-3, 5)]
    return _svg(frame, "norm ratios, as released and patched", body)


def _power(place: int) -> str:
    return f"{2**place}" if place >= 0 else f"1/{2**-place}"


def _binned(ratios: Iterable[float]) -> Counter[float]:
    places = (round(4 * math.log2(r)) / 4 for r in ratios if r > 0 and math.isfinite(r))
    return Counter(min(max(p, _BINS[0]), _BINS[-1]) for p in places)
