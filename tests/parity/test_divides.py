"""Who divides in the installed pair, against what the releases' code says."""

from __future__ import annotations

import pytest
import transformers
from packaging.version import Version

from gafixer.parity.divides import Loss, who_divides

RELEASE = Version(transformers.__version__)


@pytest.mark.skipif(Version("5.5.4") > RELEASE, reason="describes releases from 5.5.4 on")
def test_keywords_are_taken_for_a_promise() -> None:
    ratios = {division.loss: division.ratio for division in who_divides()}
    assert ratios == {
        Loss.PLAIN: pytest.approx(1),
        Loss.DROPS: pytest.approx(4),
        Loss.HONOURS: pytest.approx(1),
        Loss.FUNCTION_IGNORES: pytest.approx(4),
        Loss.FUNCTION_DIVIDES: pytest.approx(1),
    }


def test_every_ratio_is_told_in_words() -> None:
    assert all("divided" in division.verdict for division in who_divides())
