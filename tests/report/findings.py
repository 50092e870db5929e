"""Findings to show."""

from __future__ import annotations

from gafixer.findings import (
    Applicability,
    Confidence,
    Edit,
    Finding,
    Fix,
    Place,
    Position,
    Related,
    Role,
    Severity,
    Span,
)

__all__ = ["TRAIN", "finding", "place", "train"]

TRAIN = """\
def train(model, loader, optimizer, steps):
    for step, batch in enumerate(loader):
        logits = model(batch["input_ids"])
        loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())

        loss = loss / steps
        loss.backward()
        if (step + 1) % steps == 0:
            optimizer.step()
"""


def place(path: str, row: int, start: int, end: int, end_row: int | None = None) -> Place:
    """Columns from 1; the end is not included."""
    return Place(path, Span(Position(row, start), Position(end_row or row, end)))


def finding(where: Place, *related: Related, message: str = "said", fix: Fix | None = None) -> Finding:
    """A plain one."""
    return Finding("GA101", "mean-over-steps", message, Severity.ERROR, Confidence.HIGH, where, related, "do this", fix)


def train() -> Finding:
    """The fault of `TRAIN`, with all its places, one of them in another file."""
    divide = place("train.py", 6, 16, 28)
    return finding(
        divide,
        Related(Role.MEAN, place("train.py", 4, 16, 80), "mean over the microbatch's tokens"),
        Related(Role.DIVIDE, divide, "by 4 steps"),
        Related(Role.BACKWARD, place("train.py", 7, 9, 24), ""),
        Related(Role.LOOP, place("train.py", 2, 5, 29, end_row=9), "a window is 4 microbatches"),
        Related(Role.EVIDENCE, place("lib/data.py", 12, 5, 30), "labels are filled with -100"),
        message="the mean of 4 means is not the mean over the window's tokens",
        fix=Fix(Applicability.SAFE, "divide by the window's tokens", (Edit(divide.span, "loss"),)),
    )
