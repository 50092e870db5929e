"""Configuration files: every key, `extend`, and what is said of a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from gafixer import settings
from gafixer.declared import LossReduction, OwnLoss
from gafixer.files import Glob
from gafixer.findings import Severity
from gafixer.settings import Below, Helpers, Layer, SettingsError, Strategy
from gafixer.settings.keys import KEYS

FULL = """\
select = ["GA1", "window-leaks"]
ignore = ["GA102"]
extend-select = []
per-file-ignores = {"tests/*" = ["GA1"]}
min-severity = "info"
exclude = ["old"]
extend-exclude = ["gen/*.py"]
target-transformers = ">=4.53,<5"
helpers = "import"
strategy = "rescale"
unsafe-fixes = true
cache-dir = "build/cache"
steps-names = ["cumul"]
step-functions = ["engine.go"]
divide-functions = ["share"]
losses.masked_nll = {reduction = "mean", target = "labels", ignored-label = 0}
"losses"."mylib.summed".target = 2
"""
HEADERS = [("gafixer.toml", ""), ("pyproject.toml", "[tool.gafixer]\n")]


@pytest.mark.parametrize(("name", "header"), HEADERS)
def test_load(tmp_path: Path, name: str, header: str) -> None:
    """Every key, in both files; patterns hold below the file's folder."""
    (tmp_path / name).write_text(header + FULL)
    base = str(tmp_path)
    assert all(key in FULL for key in KEYS if key != "extend")
    assert settings.configures(tmp_path) == tmp_path / name
    assert settings.load(tmp_path / name) == (
        Layer(
            select=("GA1", "window-leaks"),
            ignore=("GA102",),
            extend_select=(),
            per_file_ignores=((Glob("tests/*", base), ("GA1",)),),
            min_severity=Severity.INFO,
            exclude=(Glob("old", base),),
            extend_exclude=(Glob("gen/*.py", base),),
            target_transformers=">=4.53,<5",
            helpers=Helpers.IMPORT,
            strategy=Strategy.RESCALE,
            unsafe_fixes=True,
            cache_dir=Below("build/cache", base),
            steps_names=("cumul",),
            step_functions=("engine.go",),
            divide_functions=("share",),
            losses=(
                OwnLoss("masked_nll", LossReduction.MEAN, "labels", 0),
                OwnLoss("mylib.summed", target=2),
            ),
        ),
    )


def test_inline() -> None:
    """One setting as TOML, with dots where that is deeper."""
    assert settings.inline('ignore = ["GA1"]', "/") == Layer(ignore=("GA1",))
    assert settings.inline("losses.f.ignored-label = -1", "/") == Layer(losses=(OwnLoss("f", ignored_label=-1),))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slect = []", "--config 'slect = []': unknown key 'slect'; did you mean 'select'?"),
        ("select = [", "--config 'select = [': Invalid value"),
        ("extend = 'x.toml'", "--config: 'extend' belongs in a file"),
    ],
)
def test_inline_mistakes(text: str, said: str) -> None:
    """They name the option, not a row of it."""
    with pytest.raises(SettingsError) as caught:
        settings.inline(text, "/")
    assert str(caught.value).startswith(said)


def test_extend(tmp_path: Path) -> None:
    """What is extended comes first; its patterns hold below its own folder; files of other names may be extended."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "base.toml").write_text("select = ['GA1']\nexclude = ['x/y']\nextend = 'pyproject.toml'\n")
    (tmp_path / "pyproject.toml").write_text("[tool.gafixer]\nunsafe-fixes = true\n")
    own = tmp_path / "sub" / "gafixer.toml"
    own.write_text("extend = '../base.toml'\nignore = ['GA102']\n")
    assert settings.load(own) == (
        Layer(unsafe_fixes=True),
        Layer(select=("GA1",), exclude=(Glob("x/y", str(tmp_path)),)),
        Layer(ignore=("GA102",)),
    )


def test_extend_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A circle, and a file that is not there, are told where they are asked for."""
    monkeypatch.chdir(tmp_path)
    Path("gafixer.toml").write_text("\nextend = 'b.toml'\n")
    with pytest.raises(SettingsError, match=r"^gafixer.toml:2: 'b.toml': no such file$"):
        settings.load(Path("gafixer.toml"))
    Path("b.toml").write_text("extend = './gafixer.toml'\n")
    with pytest.raises(SettingsError, match=r"^b.toml:1: './gafixer.toml' extends this file again$"):
        settings.load(Path("gafixer.toml"))


MISTAKES = [
    ("[tool.gafixer]\nslect = []\n", "2: unknown key 'slect' in [tool.gafixer]; did you mean 'select'?"),
    ("[tool.gafixer]\nmin_severity = 'info'", "2: unknown key 'min_severity' in [tool.gafixer]; did you mean 'min-s"),
    ("[tool.gafixer]\nzzz = 1\n", "2: unknown key 'zzz' in [tool.gafixer]"),
    ("[tool.gafixer]\nselect = 'GA1'\n", "2: 'select' must be a list of strings"),
    ("[tool.gafixer]\nselect = [1]\n", "2: 'select' must be a list of strings"),
    ("[tool.other]\nselect = 1\n[tool.gafixer]\n\nselect = 1\n", "5: 'select' must be a list of strings"),
    ("[tool.gafixer]\nignore = [\n  'GA101',\n  'GA109',\n]\n", "4: unknown rule 'GA109'; did you mean 'GA101'?"),
    ("[tool.gafixer]\nmin-severity = 'warn'\n", "2: 'min-severity' must be one of error, warning, info; did you mean"),
    ("[tool.gafixer]\nmin-severity = 3\n", "2: 'min-severity' must be one of error, warning, info"),
    ("[tool.gafixer]\nhelpers = 'imports'\n", "2: 'helpers' must be one of private, import; did you mean 'import'?"),
    (
        "[tool.gafixer]\nstrategy = 'readahead'\n",
        "2: 'strategy' must be one of auto, rescale, read-ahead; did you mean",
    ),
    ("[tool.gafixer]\nunsafe-fixes = 1\n", "2: 'unsafe-fixes' must be true or false"),
    ("[tool.gafixer]\nextend = 1\n", "2: 'extend' must be the path of a file"),
    ("[tool.gafixer]\ntarget-transformers = 'new'\n", "2: 'target-transformers' must be a version or a range of"),
    ("[tool.gafixer]\ntarget-transformers = 5\n", "2: 'target-transformers' must be a version"),
    ("[tool]\ngafixer = 3\n", "2: [tool.gafixer] must be a table"),
    ("tool = 3 # gafixer\n", None),
    ("[tool.gafixer.sub]\nx = 1\n", "1: unknown key 'sub' in [tool.gafixer]"),
    ("tool.gafixer.slect = []\n", "1: unknown key 'slect' in [tool.gafixer]"),
    ("[tool.gafixer]\nselect = [\n", ""),
    ("[tool.gafixer]\nsteps-names = ['a', '2b']\n", "2: '2b' is no name"),
    ("[tool.gafixer]\nper-file-ignores = []\n", "2: 'per-file-ignores' must be a table"),
    ("[tool.gafixer.per-file-ignores]\n'a' = ['GA1']\n'b*' = ['GA109']\n", "3: unknown rule 'GA109'"),
    ("[tool.gafixer.losses]\nf = 1\n", "2: 'f' must be a table"),
    ("[tool.gafixer.losses.'f g']\n", "1: 'f g' is no name of a function or class"),
    ("[tool.gafixer.losses.f]\ntarget = 1\n\n[tool.gafixer.losses.'m.g']\ntarget = -1\n", "5: 'target' must be an arg"),
    ("[tool.gafixer.losses.f]\ntarget = true\n", "2: 'target' must be an argument's name, or its position from 0"),
    ("[tool.gafixer.losses.f]\nignored-label = 'pad'\n", "2: 'ignored-label' must be a whole number"),
    (
        "[tool.gafixer]\nlosses.f = {target = 1, reductoin = 'mean'}\n",
        "2: unknown key 'reductoin' in [tool.gafixer.losses.f]; did you mean 'reduction'?",
    ),
    (
        '[tool.gafixer]\nexclude = ["""\nselect = 1\n"""]\nselect = 2\n',
        "5: 'select' must be a list of strings",
    ),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_mistakes_name_file_line_and_right_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str | None
) -> None:
    """One line; a file that does not configure us is none of our business."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(text)
    if said is None:
        assert settings.configures(tmp_path) is None
        return
    with pytest.raises(SettingsError) as caught:
        settings.load(settings.configures(tmp_path) or Path())
    assert str(caught.value).startswith(f"pyproject.toml:{said}")
    assert "\n" not in str(caught.value)


def test_other_peoples_broken_pyproject(tmp_path: Path) -> None:
    """A file that does not speak of us is none of our business."""
    (tmp_path / "pyproject.toml").write_text("= broken")
    assert settings.configures(tmp_path) is None


def test_no_text(tmp_path: Path) -> None:
    """A file that is no UTF-8 is named."""
    (tmp_path / "gafixer.toml").write_bytes(b"select = ['\xff']")
    with pytest.raises(SettingsError, match="not UTF-8 at byte 11"):
        settings.load(tmp_path / "gafixer.toml")


def test_unreadable(tmp_path: Path) -> None:
    """So is one that can't be read."""
    with pytest.raises(SettingsError, match=r"gafixer.toml: no such file or directory"):
        settings.load(tmp_path / "gafixer.toml")
