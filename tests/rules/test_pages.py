"""Every rule has a page of the same shape, and its example is the code that the tests run."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

RULES = Path(__file__).parents[2] / "rules"
FOLDERS = sorted(path for path in RULES.glob("GA*") if path.is_dir())
SECTIONS = [
    "What it does",
    "Why is this bad?",
    "Example",
    "What changes after the fix",
    "When not to follow it",
    "Fix safety",
    "References",
]
every_rule = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
every_script = pytest.mark.parametrize(
    "folder", [folder for folder in FOLDERS if (folder / "bad.py").is_file()], ids=lambda folder: folder.name
)


def _page(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8")


def _section(page: str, title: str) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


@every_rule
def test_heading_names_the_rule(folder: Path) -> None:
    code, _, name = folder.name.partition("_")
    assert _page(folder).startswith(f"# {name.replace('_', '-')} ({code})\n")


@every_rule
def test_sections(folder: Path) -> None:
    page = _page(folder)
    assert re.findall(r"^## (.*)$", page, flags=re.MULTILINE) == SECTIONS
    for title in SECTIONS:
        assert _section(page, title).strip(), title


@every_rule
def test_example_has_both_forms(folder: Path) -> None:
    faulty, use_instead, right = _section(_page(folder), "Example").partition("\nUse instead:\n")
    assert use_instead
    assert "```" in faulty
    assert "```" in right


@every_rule
def test_why_has_a_formula(folder: Path) -> None:
    assert re.search(r"^    \S", _section(_page(folder), "Why is this bad?"), flags=re.MULTILINE)


@every_rule
def test_says_what_changes(folder: Path) -> None:
    changes = _section(_page(folder), "What changes after the fix")
    assert re.findall(r"^- \*\*(.*?)\.\*\*", changes, flags=re.MULTILINE) == [
        "Gradient norm",
        "Clipping",
        "Learning rate",
        "Curves",
    ]


@every_rule
def test_python_blocks_parse(folder: Path) -> None:
    for block in _python_blocks(_page(folder)):
        ast.parse(block)


@every_rule
def test_links(folder: Path) -> None:
    page = _page(folder)
    links = re.findall(r"\]\((.*?)\)", page)
    assert any(link.startswith("https://") for link in links)
    for link in links:
        assert link.startswith("https://") or (folder / link).is_file(), link


@every_script
def test_example_is_an_excerpt_of_the_scripts(folder: Path) -> None:
    blocks = _python_blocks(_section(_page(folder), "Example"))
    for block, name in zip(blocks, ("bad.py", "good.py"), strict=True):
        script = (folder / name).read_text(encoding="utf-8")
        assert any(textwrap.indent(block, " " * depth) in script for depth in range(0, 17, 4)), name
