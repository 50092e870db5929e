"""Settings: what selects, what wins, and what is said of a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from gafixer import rulebook, selection, settings
from gafixer.files import DEFAULT_EXCLUDE, Glob
from gafixer.findings import Severity
from gafixer.selection import codes_of, narrow
from gafixer.settings import Layer, SettingsError

CATALOGUE = {"GA101": "mean-over-steps", "GA102": "short-window", "GA110": "made-up", "GA201": "window-leaks"}
ALL = frozenset(CATALOGUE)


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rules."""
    monkeypatch.setattr(rulebook, "catalogue", lambda: CATALOGUE)


@pytest.mark.parametrize(
    ("selector", "codes"),
    [
        ("ALL", "101 102 110 201"),
        ("GA", "101 102 110 201"),
        ("GA1", "101 102 110"),
        ("GA10", "101 102"),
        ("GA101", "101"),
        ("window-leaks", "201"),
    ],
)
def test_selectors(selector: str, codes: str) -> None:
    """Codes, prefixes of codes, names, ALL."""
    assert codes_of(selector, CATALOGUE) == {f"GA{code}" for code in codes.split()}


@pytest.mark.parametrize(
    ("selector", "near"),
    [
        ("GA103", "GA101"),
        ("ga101", "GA101"),
        ("all", "ALL"),
        ("mean_over_steps", "mean-over-steps"),
        ("short", "short-window"),
        ("", None),
        ("E501", None),
    ],
)
def test_unknown_selector(selector: str, near: str | None) -> None:
    """The nearest right word, when there is one."""
    with pytest.raises(selection.UnknownRuleError) as caught:
        codes_of(selector, CATALOGUE)
    assert str(caught.value) == f"unknown rule '{selector}'" + (f"; did you mean '{near}'?" if near else "")


@pytest.mark.parametrize(
    ("on", "off", "codes"),
    [
        (["GA1"], ["GA101"], "102 110"),
        (["GA101"], ["GA1"], "101"),
        (["ALL"], ["GA1", "window-leaks"], ""),
        (["GA1", "GA101"], ["GA10"], "101 110"),
        (["GA101"], ["mean-over-steps"], ""),
        (["GA2"], ["GA201"], ""),
    ],
)
def test_the_narrower_selector_wins(on: list[str], off: list[str], codes: str) -> None:
    """Whatever the order; of two equal ones the one that ignores."""
    assert narrow(frozenset(), on, off, CATALOGUE) == {f"GA{code}" for code in codes.split()}


def test_defaults() -> None:
    """All rules, warnings and errors, ruff's excludes."""
    assert settings.resolve() == settings.Settings(ALL, Severity.WARNING, tuple(map(Glob, DEFAULT_EXCLUDE)))


def test_layers() -> None:
    """A layer that selects begins anew; one that does not changes what was selected."""
    base = Layer(select=("GA1",), ignore=("GA102",), min_severity=Severity.INFO)
    assert settings.resolve(base).selected == {"GA101", "GA110"}
    assert settings.resolve(base, Layer(select=("GA10",))).selected == {"GA101", "GA102"}
    assert settings.resolve(base, Layer(extend_select=("GA2",))).selected == {"GA101", "GA110", "GA201"}
    assert settings.resolve(base, Layer(ignore=("GA11",))).selected == {"GA101"}
    assert settings.resolve(base, Layer()).min_severity is Severity.INFO
    assert settings.resolve(base, Layer(min_severity=Severity.ERROR)).min_severity is Severity.ERROR


def test_excludes() -> None:
    """`exclude` replaces, `extend-exclude` adds, in every layer."""
    one, two, three = Glob("one", "/a"), Glob("two", "/b"), Glob("three", "/b")
    layered = settings.resolve(Layer(exclude=(one,), extend_exclude=(two,)), Layer(extend_exclude=(three,)))
    assert layered.exclude == (one, two, three)
    assert settings.resolve(Layer(extend_exclude=(two,)), Layer(exclude=(three,))).exclude == (three, two)


FULL = """\
select = ["GA1", "window-leaks"]
ignore = ["GA102"]
extend-select = []
min-severity = "info"
exclude = ["old"]
extend-exclude = ["gen/*.py"]
target-transformers = ">=4.53,<5"
"""


@pytest.mark.parametrize(("name", "header"), [("gafixer.toml", ""), ("pyproject.toml", "[tool.gafixer]\n")])
def test_load(tmp_path: Path, name: str, header: str) -> None:
    """Every key, in both files; patterns hold below the file's folder."""
    (tmp_path / name).write_text(header + FULL)
    assert settings.find_config(tmp_path) == tmp_path / name
    assert settings.load(tmp_path / name) == Layer(
        select=("GA1", "window-leaks"),
        ignore=("GA102",),
        extend_select=(),
        min_severity=Severity.INFO,
        exclude=(Glob("old", str(tmp_path)),),
        extend_exclude=(Glob("gen/*.py", str(tmp_path)),),
        target_transformers=">=4.53,<5",
    )


def test_nearest_file_wins(tmp_path: Path) -> None:
    """Upwards; a pyproject.toml without our table is passed over, gafixer.toml goes before one with it."""
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.gafixer]\n")
    (tmp_path / "a" / "pyproject.toml").write_text('[project]\ndependencies = ["gafixer"]\n')
    assert settings.find_config(deep) == tmp_path / "pyproject.toml"
    (tmp_path / "gafixer.toml").touch()
    assert settings.find_config(deep) == tmp_path / "gafixer.toml"


def test_other_peoples_broken_pyproject(tmp_path: Path) -> None:
    """A file that does not speak of us is none of our business."""
    (tmp_path / "pyproject.toml").write_text("= broken")
    assert settings.find_config(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.gafixer]\nslect = []\n", "2: unknown key 'slect' in [tool.gafixer]; did you mean 'select'?"),
        (
            "[tool.gafixer]\nmin_severity = 'info'",
            "2: unknown key 'min_severity' in [tool.gafixer]; did you mean 'min-s",
        ),
        ("[tool.gafixer]\nzzz = 1\n", "2: unknown key 'zzz' in [tool.gafixer]"),
        ("[tool.gafixer]\nselect = 'GA1'\n", "2: 'select' must be a list of strings"),
        ("[tool.gafixer]\nselect = [1]\n", "2: 'select' must be a list of strings"),
        ("[tool.other]\nselect = 1\n[tool.gafixer]\n\nselect = 1\n", "5: 'select' must be a list of strings"),
        ("[tool.gafixer]\nignore = [\n  'GA101',\n  'GA109',\n]\n", "4: unknown rule 'GA109'; did you mean 'GA101'?"),
        (
            "[tool.gafixer]\nmin-severity = 'warn'\n",
            "2: 'min-severity' must be one of error, warning, info; did you mean",
        ),
        ("[tool.gafixer]\nmin-severity = 3\n", "2: 'min-severity' must be one of error, warning, info"),
        (
            "[tool.gafixer]\ntarget-transformers = 'new'\n",
            "2: 'target-transformers' must be a version or a range of versions",
        ),
        ("[tool.gafixer]\ntarget-transformers = 5\n", "2: 'target-transformers' must be a version"),
        ("[tool]\ngafixer = 3\n", "2: [tool.gafixer] must be a table"),
        ("[tool.gafixer.sub]\nx = 1\n", "1: unknown key 'sub' in [tool.gafixer]"),
        ("tool.gafixer.slect = []\n", "1: unknown key 'slect' in [tool.gafixer]"),
        ("[tool.gafixer]\nselect = [\n", ""),
    ],
)
def test_mistakes_name_file_line_and_right_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    """One line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(SettingsError) as caught:
        settings.load(settings.find_config(tmp_path) or Path())
    assert str(caught.value).startswith(f"pyproject.toml:{said}")
    assert "\n" not in str(caught.value)


def test_no_text(tmp_path: Path) -> None:
    """A file that is no UTF-8 is named."""
    (tmp_path / "gafixer.toml").write_bytes(b"select = ['\xff']")
    with pytest.raises(SettingsError, match="not UTF-8 at byte 11"):
        settings.load(tmp_path / "gafixer.toml")


def test_unreadable(tmp_path: Path) -> None:
    """So is one that can't be read."""
    with pytest.raises(SettingsError, match=r"gafixer.toml: no such file or directory"):
        settings.load(tmp_path / "gafixer.toml")
