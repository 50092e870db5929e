"""The fault in one picture: how much each token of a window weighs, and what that does to the gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tests.rules.scripts import load_script

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Measured", "measure", "picture"]

_STEPS = 4
_IGNORED = -100
_WIDTH, _LEFT, _BAR = 760, 20, 46
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2")


@dataclass(frozen=True, slots=True)
class Measured:
    """The scored tokens of each microbatch of a window; the usual gradient's norm over the right one's, and cosine."""

    counts: tuple[int, ...]
    norm: float
    cosine: float


def measure() -> Measured:
    """The most uneven whole window of the faulty script of GA101, in float64, before the first step."""
    script = load_script("GA101", "bad")
    torch.manual_seed(0)
    model, loader, _ = script.build()
    batches = list(loader)
    windows = [batches[start : start + _STEPS] for start in range(0, len(batches) - _STEPS + 1, _STEPS)]
    window = max(windows, key=lambda window: max(counts := _counts(window)) / min(counts))
    counts = _counts(window)
    right = _gradient(model, window, "sum", sum(counts))
    usual = _gradient(model, window, "mean", _STEPS)
    return Measured(counts, float(usual.norm() / right.norm()), float(torch.cosine_similarity(usual, right, dim=0)))


def _counts(window: Sequence[tuple[Tensor, Tensor]]) -> tuple[int, ...]:
    return tuple(int(tags.ne(_IGNORED).sum()) for _, tags in window)


def _gradient(model: nn.Module, window: Sequence[Any], reduction: str, divisor: float) -> Tensor:
    """The gradient of the window's losses, reduced and divided, as one vector."""
    model.zero_grad()
    for tokens, tags in window:
        logits = model(tokens).flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, tags.flatten(), ignore_index=_IGNORED, reduction=reduction)
        torch.autograd.backward(loss / divisor)
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def picture(measured: Measured) -> str:
    """An SVG: two bars, each the whole gradient of the window, cut into tokens by what they weigh."""
    counts, total = measured.counts, sum(measured.counts)
    most = total / (_STEPS * min(counts))
    said = f"{measured.norm:.2f} times the norm, cosine {measured.cosine:.2f}"
    alike = tuple(1 / total for _ in counts)
    usual = tuple(1 / (_STEPS * count) for count in counts)
    body = [
        _text(24, f"One window: {_STEPS} microbatches with {_listed(counts)} scored tokens", "title"),
        _text(56, f"One big batch: every token weighs 1/{total}"),
        *_bar(66, counts, alike),
        _text(158, f"Mean of {_STEPS} means: a token weighs 1/({_STEPS}n), up to {most:.1f} times too much"),
        *_bar(168, counts, usual),
        _text(258, f"Here the gradient has {said} to the right one (float64)."),
    ]
    return "\n".join([_HEAD, *body, "</svg>", ""])


def _listed(counts: Sequence[int]) -> str:
    return f"{', '.join(map(str, counts[:-1]))} and {counts[-1]}"


def _bar(top: int, counts: Sequence[int], weights: Sequence[float]) -> Iterator[str]:
    """A row of cells, as wide as what each token weighs, a colour for each microbatch; below, each one's share."""
    left = float(_LEFT)
    scale = _WIDTH - 2 * _LEFT
    for count, weight, colour in zip(counts, weights, _COLOURS, strict=True):
        wide = weight * scale
        for cell in range(count):
            x = left + cell * wide
            yield f'<rect x="{x:.2f}" y="{top}" width="{wide - 1:.2f}" height="{_BAR}" fill="{colour}"/>'
        middle = left + count * wide / 2
        yield f'<text x="{middle:.1f}" y="{top + _BAR + 15}" class="share">{100 * count * weight:.3g} %</text>'
        left += count * wide


def _text(y: int, said: str, kind: str = "label") -> str:
    return f'<text x="{_LEFT}" y="{y}" class="{kind}">{said}</text>'


_HEAD = f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} 272" width="{_WIDTH}" height="272" role="img">
<title>How much each token of a window weighs</title>
<style>
  text {{ font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }}
  .title {{ font-size: 16px; font-weight: 600; }}
  .label {{ font-size: 14px; }}
  .share {{ font-size: 12px; text-anchor: middle; }}
  @media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3; }} }}
</style>"""
