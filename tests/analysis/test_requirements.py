"""The releases of Transformers that a project allows, wherever it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gafixer.analysis.checkout import FileProject
from gafixer.analysis.requirements import NEWEST, Requirement, read, target
from gafixer.data.transformers import Division
from gafixer.findings import Place, Position, Span

if TYPE_CHECKING:
    from pathlib import Path

PLACE = Place("requirements.txt", Span(Position(1, 1), Position(1, 2)))

WRITTEN = {
    "pinned": ("requirements.txt", "torch\ntransformers==4.31.0\n", "==4.31.0", 2),
    "range": ("requirements-dev.txt", "transformers >= 4.40, < 5\n", ">=4.40,<5", 1),
    "extras": ("requirements.txt", "transformers[torch]>=4.40  # why\n", ">=4.40", 1),
    "any": ("requirements.txt", "transformers\n", "", 1),
    "pyproject": (
        "pyproject.toml",
        '[project]\nkeywords = ["transformers"]\ndependencies = [\n  "transformers~=4.57.0",\n]\n',
        "~=4.57.0",
        4,
    ),
    "poetry": ("pyproject.toml", '[tool.poetry.dependencies]\ntransformers = "^4.30"\n', "^4.30", 2),
    "poetry table": ("pyproject.toml", 'transformers = {version = "^4.30", extras = ["torch"]}\n', "^4.30", 1),
    "setup.py": ("setup.py", 'setup(install_requires=["torch", "transformers>=4.46"])\n', ">=4.46", 1),
    "setup.cfg": ("setup.cfg", "[options]\ninstall_requires =\n    transformers>=4.46,<4.50\n", ">=4.46,<4.50", 3),
    "conda": ("environment.yml", "dependencies:\n  - transformers=4.30\n", "=4.30", 2),
    "uv": ("uv.lock", '[[package]]\nname = "transformers"\nversion = "4.57.1"\n', "==4.57.1", 2),
    "pipenv": ("Pipfile.lock", '{"default": {"transformers": {"hashes": [], "version": "==4.9.2"}}}', "==4.9.2", 1),
}
NOT_WRITTEN = {
    "another package": ("requirements.txt", "sentence-transformers==2.0\ntransformers-stream-generator\n"),
    "a comment": ("requirements.txt", "# transformers==4.31.0\n"),
    "a keyword": ("pyproject.toml", '[project]\nkeywords = ["transformers"]\n'),
    "the repository": ("requirements.txt", "git+https://github.com/huggingface/transformers\n"),
}


@pytest.mark.parametrize(("name", "text", "specifier", "row"), WRITTEN.values(), ids=WRITTEN)
def test_read(name: str, text: str, specifier: str, row: int) -> None:
    said = read(text, name, name)
    assert said is not None
    assert said.specifier == specifier
    assert said.place.span.start.row == row


@pytest.mark.parametrize(("name", "text"), NOT_WRITTEN.values(), ids=NOT_WRITTEN)
def test_not_a_requirement(name: str, text: str) -> None:
    assert read(text, name, name) is None


@pytest.mark.parametrize(
    ("specifier", "oldest", "newest"),
    [
        ("==4.31.0", "4.31.0", "4.31.0"),
        ("==4.31.0.dev0", "4.31.0.dev0", "4.31.0.dev0"),
        (">=4.55.0,<=5.8.0,!=5.6.0", "4.55.0", "5.8.0"),
        (">=4.46.1,<5", "4.46.0", "4.57.0"),
        ("^4.30", "4.30.0", "4.57.0"),
        ("=4.30", "4.30", "4.30"),
        ("", "4.0.0", NEWEST.newest),
        ("no version", NEWEST.newest, NEWEST.newest),
        (">=99", NEWEST.newest, NEWEST.newest),
    ],
)
def test_target(specifier: str, oldest: str, newest: str) -> None:
    meant = target(Requirement(specifier, PLACE))
    assert (meant.releases[0], meant.newest) == (oldest, newest)


def test_setting_counts_more() -> None:
    said = read("transformers==4.31.0\n", "requirements.txt", "requirements.txt")
    assert target(said, "4.57").newest == "4.57"
    assert target(None) is NEWEST


@pytest.mark.parametrize(
    ("release", "who"),
    [
        ("4.45.2", Division.ACCELERATE),
        ("4.46.0", Division.NOBODY),
        ("4.48.0", Division.TRAINER),
        ("4.53.0", Division.TRAINER_WITH_COUNT),
        ("5.2.0", Division.TRAINER_AND_ACCELERATE),
        ("5.5.3", Division.TRAINER_AND_ACCELERATE),
        ("5.5.4", Division.TRAINER_WITH_COUNT),
    ],
)
def test_who_divides(release: str, who: Division) -> None:
    assert target(None, release).division is who


def test_nearest_folder_and_the_most_exact(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "requirements.txt").write_text("transformers==4.40.0\n")
    assert FileProject().requirement(str(inner / "t.py")) is not None
    (tmp_path / "a" / "pyproject.toml").write_text('dependencies = ["transformers>=4.50"]\n')
    (tmp_path / "a" / "uv.lock").write_text('name = "transformers"\nversion = "4.57.1"\n')
    said = FileProject().requirement(str(inner / "t.py"))
    assert said is not None
    assert said.specifier == "==4.57.1"
    (inner / ".git").mkdir()
    assert FileProject().requirement(str(inner / "t.py")) is None
