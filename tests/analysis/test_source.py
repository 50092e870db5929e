"""Source text: what is cut into blocks is what Python parses, and positions are the reader's."""

from __future__ import annotations

import ast
import codecs
import random
import re
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gafixer import engine
from gafixer.analysis.project import MemoryProject
from gafixer.analysis.source import Module, UnreadableError, decode, syntax_error
from tests.analysis.scanning import ALL

if TYPE_CHECKING:
    from gafixer.findings import Finding

LIBRARY = Path(sysconfig.get_paths()["stdlib"])


def _sample(count: int) -> list[Path]:
    """Some of the standard library's own modules, the same ones on every run."""
    every = sorted(path for path in LIBRARY.glob("*.py") if path.stat().st_size < 60_000)
    every += sorted(LIBRARY.glob("[ac-su-z]*/*.py"))[:200]
    return random.Random(0).sample(every, count)


@pytest.mark.parametrize("path", _sample(30), ids=lambda path: path.stem)
def test_blocks_are_the_whole(path: Path) -> None:
    """Each block by itself, at its row, gives the statements of the file."""
    source = path.read_bytes()
    blocks = Module.read("m", path.name, source, whole=False)
    whole = ast.parse(decode(source)).body
    assert _dumped(blocks.statements()) == _dumped(whole)
    for node in whole:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            assert node.lineno in {found.lineno for found in blocks.defined(node.name)}


@pytest.mark.parametrize("path", _sample(30), ids=lambda path: path.stem)
def test_a_name_is_imported_as_all_imports_say(path: Path) -> None:
    """The blocks that are parsed for one name are those that import it."""
    source = path.read_bytes()
    for name, given in Module.read("m", path.name, source, whole=False).imports().items():
        module = Module.read("m", path.name, source, whole=False)
        if name.startswith("*"):
            assert given[0] in module.starred()
        else:
            assert module.imported(name) == given


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from a import (  # not (b)\n    b,  # c)\n    name,\n)\n", ("a", "name")),
        ("from a import b, \\\n    name\n", ("a", "name")),
        ("import name.inner\n", ("name", None)),
        ("import a.b as name; import c\n", ("a.b", None)),
        ("try:\n    from a import name\nexcept ImportError:\n    from b import name\n", ("a", "name")),
        ("from a import name\ndef f():\n    from b import name\n", ("b", "name")),
        ("def f():\n    '''\n    import name\n    '''\n", None),
        ("name = 1\nimport other\n", None),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_where_a_name_is_imported_from(source: str, found: tuple[str, str | None] | None, *, whole: bool) -> None:
    """The last import of it counts, of a ``try`` what is tried, however it is written."""
    assert Module.read("m", "m.py", source.encode(), whole=whole).imported("name") == found


def test_what_imports_no_such_name_is_not_parsed() -> None:
    """Nor is a definition of another name."""
    module = Module.read("m", "m.py", b"from a import b\nfrom c import name\nclass D:\n    import e\n", whole=False)
    assert module.imported("name") == ("c", "name")
    assert module.defined("name") == []
    assert module.blocks[0].nodes is None
    assert module.blocks[2].nodes is None


def _dumped(nodes: list[ast.stmt]) -> list[str]:
    return [ast.dump(node, include_attributes=True) for node in nodes]


@pytest.mark.parametrize(
    "source",
    [
        "x = 1\n",
        "",
        "\n\n",
        "# only a comment",
        '"""Says\n\ndef no_function(): pass\n"""\nx = 1\n',
        "x = '''\ny = 1\n'''\nz = 2\n",
        "x = (1 +\n2)\n",
        "x = [\n1,\n2,\n]\n",
        "x = f(\ny\n)\n",
        "x = 1 + \\\n2\n",
        "if a:\n    b\nelif c:\n    d\nelse:\n    e\n",
        "try:\n    a\nexcept B:\n    c\nelse:\n    d\nfinally:\n    e\n",
        "@a\n@b(1,\n2)\ndef f():\n    pass\n",
        "@a\n\n# between\n\nclass C: pass\n",
        "def f():\n\treturn 1\n\fdef g():\n\treturn 2\n",
        "x = 1; y = 2\n",
        "async def f():\n    await g()\n",
        "for a in b:\n    c\nelse:\n    d\n",
        "def f(a,\n      b):\n# outdented comment\n    return a\n",
        "x = '''a''' '''\n'''\ny = \"\"\"'''\"\"\"\nz = 3\n",
        "if True:\n    x = 1\n\n\n\ny = 2",
    ],
)
def test_blocks_of_small_things(source: str) -> None:
    """Whatever stands at the left margin."""
    module = Module.read("m", "m.py", source.encode(), whole=False)
    assert _dumped(module.statements()) == _dumped(ast.parse(source).body)


def test_every_definition_is_found_behind_a_decorated_one() -> None:
    """A decorator belongs to one definition, not to the rest of the file."""
    source = "@a\n@b\ndef f():\n    pass\n\ndef g():\n    pass\n\n@a\nclass C:\n    pass\nx = [\n1,\n]\ny = 2\n"
    module = Module.read("m", "m.py", source.encode(), whole=False)
    assert [len(module.defined(name)) for name in "fgCxy"] == [1] * 5


def test_cutting_reads_each_character_once() -> None:
    """A long list at the margin is no quadratic affair."""
    source = "x = [\n" + "1,\n" * 50_000 + "]\ny = 1\n"
    start = time.process_time()
    module = Module.read("m", "m.py", source.encode(), whole=False)
    assert time.process_time() - start < 5
    assert len(module.blocks) == 2


LOOP = """\
def train(model, loader, optimizer, n):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0)
        {line}
        if (i + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
HEAD = "import torch.nn.functional as F\n"


def _place(source: bytes) -> tuple[int, int, int]:
    """Row, first column and end column of the one finding."""
    found = engine.check_source(source, "train.py", MemoryProject({}), ALL).findings
    (finding,) = [f for f in found if f.code == "GA101"]
    span = finding.place.span
    return span.start.row, span.start.column, span.end.column


PLAIN = HEAD + LOOP.format(line="(loss / n).backward()")
AT = (5, 10, 18)


@pytest.mark.parametrize(
    ("source", "place"),
    [
        (PLAIN.encode(), AT),
        (PLAIN.replace("\n", "\r\n").encode(), AT),
        (PLAIN.replace("\n", "\r").encode(), AT),
        (codecs.BOM_UTF8 + PLAIN.encode(), AT),
        (b"# -*- coding: latin-1 -*-\n" + PLAIN.encode(), (6, 10, 18)),
        (b"# coding: latin-1\n# \xe9\n" + PLAIN.encode(), (7, 10, 18)),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\ns = '\x80'\n" + PLAIN.encode(), (8, 10, 18)),
        ("s = '訓練'\n".encode() + PLAIN.encode(), (6, 10, 18)),
        (PLAIN.replace("(loss / n)", "s = '損失'; (loss / n)").encode(), (5, 20, 28)),
        (PLAIN.replace("loss", "損失").encode(), (5, 10, 16)),
        (PLAIN.replace("(loss / n)", "s = '🙂'; (loss / n)").encode(), (5, 19, 27)),
        (PLAIN.replace("    ", "\t").encode(), (5, 4, 12)),
        (PLAIN.replace("def train", "\fdef train").encode(), AT),
        (PLAIN.replace(HEAD, HEAD + "\f\n").encode(), (6, 10, 18)),
        (PLAIN.replace(HEAD, HEAD + "s = 'a\\\nb'\n").encode(), (7, 10, 18)),
        (PLAIN.replace(HEAD, HEAD + "s = 'a\x0bb\x1c\u2028'\n").encode(), (6, 10, 18)),
        (PLAIN.rstrip("\n").encode(), AT),
    ],
    ids=[
        "plain", "crlf", "cr", "bom", "coding", "coding and bytes", "second line", "cjk above", "cjk before",
        "cjk names", "emoji before", "tabs", "form feed", "form feed line", "continued string", "odd line ends",
        "no newline at the end",
    ],
)  # fmt: skip
def test_positions_are_the_readers(source: bytes, place: tuple[int, int, int]) -> None:
    """Rows as an editor counts them, columns in characters from 1."""
    assert _place(source) == place


@pytest.mark.parametrize(
    ("source", "row", "column", "says"),
    [
        (b"x = 1\nloss.backward(\n", 2, 14, "never closed"),
        (b"def f():\nloss.backward()\n", 2, 1, "indented block"),
        (b"loss.backward()\nx = = 1\n", 2, 5, "invalid syntax"),
        (b"loss.backward()\ns = '\xe9'\n", 2, 1, "not utf-8"),
        (b"# coding: ascii\ns = '\xe9'\nloss.backward()\n", 2, 1, "not ascii"),
        (b"# coding: no-such\nloss.backward()\n", 1, 1, "unknown encoding"),
        (b"loss.backward()\n\0\n", 2, 1, "NUL"),
        (b"loss.backward()\n" + b"(" * 3000 + b")" * 3000, 2, 1, "too many nested|too deeply nested"),
        (b"\tif x:\nloss.backward()", 1, 1, "unexpected indent"),
    ],
)
def test_unreadable_source_says_where(source: bytes, row: int, column: int, says: str) -> None:
    """One finding, GA900, at the place."""
    (finding,) = scan_bytes(source)
    assert (finding.code, finding.severity.value) == ("GA900", "error")
    assert re.search(says, finding.message)
    start = finding.place.span.start
    assert start.row == row
    if says not in {"too many nested|too deeply nested", "unexpected indent"}:
        assert start.column == column
    assert isinstance(syntax_error(source), UnreadableError)


def scan_bytes(source: bytes) -> tuple[Finding, ...]:
    """All findings."""
    return engine.check_source(source, "train.py", MemoryProject({}), ALL).findings
