"""Labels that are the inputs themselves leave nothing out: only the width of a batch can vary."""

from __future__ import annotations

import pytest

from gafixer.analysis.build import sites
from gafixer.analysis.project import MemoryProject
from gafixer.analysis.site import Variation
from gafixer.analysis.source import Module

LOOP = """
def train(model, optimizer, loader, accumulation_steps):
    for step, batch in enumerate(loader):
        {labels}
        loss = model(**batch).loss / accumulation_steps
        loss.backward()
        if (step + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("labels", "variation"),
    [
        ("batch['labels'] = batch['input_ids']", Variation.UNKNOWN),
        ("batch['labels'] = batch['input_ids'].clone()", Variation.UNKNOWN),
        ("batch['labels'] = batch['input_ids'].masked_fill(batch['input_ids'] == 0, -100)", Variation.CERTAIN),
        ("batch['labels'] = batch['labels'].long()", Variation.PROBABLE),
    ],
)
def test_variation(labels: str, variation: Variation) -> None:
    module = Module.read("train", "train.py", LOOP.format(labels=labels).encode(), whole=True)
    (site,) = sites(module, MemoryProject({}))
    assert [term.variation for term in site.terms] == [variation]
