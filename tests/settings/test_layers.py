"""What several layers come to."""

from __future__ import annotations

import pytest

from gafixer import settings
from gafixer.declared import Declared, LossReduction, OwnLoss
from gafixer.files import DEFAULT_EXCLUDE, Glob
from gafixer.findings import Severity
from gafixer.settings import Helpers, Layer, PerFile, Settings, SettingsError, Strategy
from tests.settings.conftest import CATALOGUE

ALL = frozenset(CATALOGUE)


def test_defaults() -> None:
    """All rules, warnings and errors, ruff's excludes."""
    assert settings.resolve() == Settings(ALL, Severity.WARNING, tuple(map(Glob, DEFAULT_EXCLUDE)))


def test_layers() -> None:
    """A layer that selects begins anew; one that does not changes what was selected."""
    base = Layer(select=("GA1",), ignore=("GA102",), min_severity=Severity.INFO)
    assert settings.resolve(base).selected == {"GA101", "GA110"}
    assert settings.resolve(base, Layer(select=("GA10",))).selected == {"GA101", "GA102"}
    assert settings.resolve(base, Layer(extend_select=("GA2",))).selected == {"GA101", "GA110", "GA201"}
    assert settings.resolve(base, Layer(ignore=("GA11",))).selected == {"GA101"}
    assert settings.resolve(base, Layer()).min_severity is Severity.INFO
    assert settings.resolve(base, Layer(min_severity=Severity.ERROR)).min_severity is Severity.ERROR


def test_unknown_rule() -> None:
    """Also where it stands under a pattern."""
    for layer in (Layer(ignore=("GA9",)), Layer(per_file_ignores=((Glob("a"), ("GA9",)),))):
        with pytest.raises(SettingsError, match="unknown rule 'GA9'"):
            settings.resolve(layer)


def test_excludes() -> None:
    """`exclude` replaces, `extend-exclude` adds, in every layer."""
    one, two, three = Glob("one", "/a"), Glob("two", "/b"), Glob("three", "/b")
    layered = settings.resolve(Layer(exclude=(one,), extend_exclude=(two,)), Layer(extend_exclude=(three,)))
    assert layered.exclude == (one, two, three)
    assert settings.resolve(Layer(extend_exclude=(two,)), Layer(exclude=(three,))).exclude == (three, two)


def test_single_values_are_replaced() -> None:
    """False and empty are said, too."""
    base = Layer(
        helpers=Helpers.IMPORT,
        strategy=Strategy.RESCALE,
        unsafe_fixes=True,
        target_transformers="4.57",
        per_file_ignores=((Glob("t"), ("GA1", "GA201")),),
        steps_names=("cumul",),
        step_functions=("go",),
        divide_functions=("share",),
    )
    made = settings.resolve(base, Layer())
    assert (made.helpers, made.unsafe_fixes, made.target_transformers) == (Helpers.IMPORT, True, "4.57")
    assert made.strategy is Strategy.RESCALE
    assert made.per_file == (PerFile(Glob("t"), ALL),)
    assert made.declared == Declared((), ("cumul",), ("go",), ("share",))
    last = Layer(
        unsafe_fixes=False, per_file_ignores=(), steps_names=(), step_functions=(), divide_functions=(), losses=()
    )
    assert settings.resolve(base, last) == settings.resolve(
        Layer(helpers=Helpers.IMPORT, strategy=Strategy.RESCALE, target_transformers="4.57")
    )


def test_losses_add_up_by_name() -> None:
    """One that is described again is described anew."""
    one, again, two = OwnLoss("one"), OwnLoss("one", LossReduction.SUM), OwnLoss("two")
    assert settings.resolve(Layer(losses=(one, two)), Layer(losses=(again,))).declared.losses == (again, two)
