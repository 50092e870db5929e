"""A notebook is one program, and a fix of it touches lines of sources only."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import pytest

from gafixer import engine, fixing, programs
from gafixer.analysis import prefilter
from gafixer.analysis.source import UnreadableError
from gafixer.findings import Finding, Position
from gafixer.fixing import Changed
from gafixer.notebooks.notebook import Notebook
from gafixer.scan import NOTHING, Failure, Scanner
from gafixer.settings import Hierarchy, Layer
from tests.notebooks.making import LISTS, STRINGS, STYLES, cut, lines_of, markdown, notebook, sources

RULES = Path(__file__).parents[2] / "rules"
SETTINGS = Hierarchy(isolated=True)
UNSAFE = Hierarchy(Layer(unsafe_fixes=True), isolated=True)
BAD = {path.parent.name: path.read_text() for path in sorted(RULES.glob("*/bad.py"))}
LOOP = BAD["GA101_mean_over_steps"]
#: Which of its cells trains.
TRAIN = next(index for index, cell in enumerate(cut(LOOP)) if "backward" in cell)
#: What people have in notebooks between their cells of Python.
AROUND = (markdown("# Training"), "%%bash\nls", "!pip install torch \\\n  --quiet\n%matplotlib inline", "")


def changed(document: str, *, unsafe: bool = True) -> Changed | None:
    """The document with its fixes made."""
    made = fixing.change(document.encode(), "nb.ipynb", Scanner(UNSAFE if unsafe else SETTINGS))
    assert made is None or isinstance(made, Changed)
    return made


def found(document: str) -> list[Finding]:
    """What is said of a notebook."""
    return list(Scanner(SETTINGS).source(document.encode(), "nb.ipynb").findings)


@pytest.mark.parametrize("name", BAD)
def test_as_many_findings_as_in_a_script(name: str) -> None:
    """The same rules at the same code, with cells of other kinds around it; each place in the cell that holds it."""
    script = Scanner(SETTINGS).source(BAD[name].encode(), "train.py", named=True).findings
    cells = [*AROUND, *cut(BAD[name])]
    notebook_ = found(notebook(*cells))
    if name == "GA900_unreadable":  # the error is where Python gives up, in a cell that holds it
        assert [(f.code, f.place.cell) for f in notebook_] == [("GA900", len(cells))]
        return
    text = BAD[name].split("\n")
    assert [f.code for f in notebook_] == [f.code for f in script]
    for mine, other in zip(notebook_, script, strict=True):
        assert mine.message == other.message
        places = [
            (mine.place, other.place),
            *((a.place, b.place) for a, b in zip(mine.related, other.related, strict=True)),
        ]
        for here, there in places:
            assert here.cell is not None
            assert cells[here.cell - 1].split("\n")[here.span.start.row - 1] == text[there.span.start.row - 1]
            assert here.span.start.column == there.span.start.column


@pytest.mark.parametrize("name", [name for name in BAD if name != "GA900_unreadable"])
def test_fixed_as_a_script_is(name: str) -> None:
    """The code is the same, line for line, and no cell is touched that has no line to change."""
    script = fixing.change(BAD[name].encode(), "train.py", Scanner(UNSAFE))
    cells = [*AROUND, *cut(BAD[name])]
    made = changed(notebook(*cells))
    if script is None:
        assert made is None
        return
    assert isinstance(script, Changed)
    assert made is not None
    after = sources(made.content.decode())
    assert lines_of(after) == [*lines_of(AROUND), *lines_of([script.content.decode()])]
    assert after[: len(AROUND)] == list(AROUND)
    assert not any(cell.startswith("\n") or cell.endswith("\n") for cell in after)
    assert changed(made.content.decode()) is None


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", [LISTS, STRINGS])
def test_only_lines_of_sources_change(style: str, kind: str) -> None:
    """All bytes that are not of a changed line are there after the fix, in their order."""
    cells = [*AROUND, "%%time\n" + "# café 🎉 \t\n" + LOOP.split("\n\n\n")[0], *cut(LOOP)[1:]]
    document = notebook(*cells, style=style, sources=kind)
    made = changed(document)
    assert made is not None
    after = made.content.decode()
    before, now = json.loads(document), json.loads(after)
    assert [c["source"] for c in now["cells"]] != [c["source"] for c in before["cells"]]
    for old, new in zip(before["cells"], now["cells"], strict=True):
        assert type(new["source"]) is type(old["source"])
        new["source"] = old["source"]
    assert json.dumps(now) == json.dumps(before)
    # Where a line of source is a line of the document, every line that goes or comes is one.
    if kind == LISTS and "indent" in STYLES[style]:
        strings = {
            json.dumps(line, ensure_ascii=e)
            for cell in (*cells, *sources(after))
            for line in with_ends(cell)
            for e in (True, False)
        }
        for line in difflib.ndiff(document.split("\n"), after.split("\n")):
            if line[0] in "+-":
                assert line[2:].strip().removesuffix(",") in strings, line


def with_ends(text: str) -> list[str]:
    """Its lines with their ends."""
    return [f"{line}\n" for line in text.split("\n")[:-1]] + [text.split("\n")[-1]]


def test_bytes_around_stay() -> None:
    """BOM, no newline at the end, carriage returns in sources: as they were."""
    cells = [part.replace("\n", "\r\n") for part in cut(LOOP)]
    document = b"\xef\xbb\xbf" + notebook(*cells).rstrip("\n").encode()
    made = fixing.change(document, "nb.ipynb", Scanner(SETTINGS))
    assert isinstance(made, Changed)
    assert made.content.startswith(b"\xef\xbb\xbf{")
    assert made.content.endswith(b"}")
    assert all("\n" not in cell.replace("\r\n", "") for cell in sources(made.content[3:].decode()))


def test_magics_stay_where_they_are() -> None:
    """A fix leaves the magics beside what it changes alone, and a cell magic on top."""
    around = "        %time loss\n        loss.backward()\n        !nvidia-smi"
    document = notebook(*(f"%%time\n{cell}\nloss?".replace("        loss.backward()", around) for cell in cut(LOOP)))
    assert around in sources(document)[TRAIN]
    made = changed(document)
    assert made is not None
    after = sources(made.content.decode())
    assert after[TRAIN].startswith("%%time\ndef _divide_gradients")
    inside = after[TRAIN].split("\n")
    assert inside.index("        %time loss") < inside.index("        loss.backward()")
    assert inside[inside.index("        loss.backward()") + 1] == "        !nvidia-smi"
    assert all(cell.startswith("%%time\n") and cell.endswith("\nloss?") for cell in after)


def test_a_loop_outside_functions_has_its_helper_in_its_cell() -> None:
    """After the imports of that cell, if it has some; nobody has to run another cell again."""
    loop = """\
for i, (tokens, tags) in enumerate(loader):
    tags[tags == 0] = -100
    loss = F.cross_entropy(model(tokens).flatten(0, 1), tags.flatten())
    (loss / 4).backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()"""
    head = "import torch\nimport torch.nn.functional as F"
    for imports, code, comment in [("", "", ""), ("import math\n", "print(1)\n", ""), ("", "", "# train\n")]:
        made = changed(notebook(head, "import numpy", f"{imports}{code}{comment}{loop}", "import json"))
        assert made is not None
        first, second, cell, last = sources(made.content.decode())
        assert (first, second, last) == (head, "import numpy", "import json")
        assert cell.startswith(f"{imports}\n\ndef _divide".lstrip("\n"))
        assert f"\n\n\n{code}num_items = 0\n{comment}for i," in cell


def test_a_patch_for_readers() -> None:
    """Cell by cell, as ruff shows it; cells that do not change are not shown."""
    made = changed(notebook(*AROUND, *cut(LOOP)))
    assert made is not None
    patch = made.file.patch(made.old, made.new, "nb.ipynb").split("\n")
    heads = [line for line in patch if line.startswith(("---", "+++"))]
    assert heads == [f"{sign} nb.ipynb:cell {len(AROUND) + TRAIN + 1}" for sign in ("---", "+++")]


def test_edits_are_of_cells() -> None:
    """The edits of a finding, made one by one in the cells, are the fix."""
    document = notebook(*AROUND, *cut(LOOP))
    (finding,) = found(document)
    assert finding.fix is not None
    texts = sources(document)
    for edit in sorted(finding.fix.edits, key=lambda e: (e.cell or 0, e.span), reverse=True):
        assert edit.cell is not None
        lines = with_ends(texts[edit.cell - 1])
        start, end = edit.span.start, edit.span.end
        assert start.column == 1
        tail = lines[end.row - 1 :] if end.column == 1 else lines[end.row :]
        texts[edit.cell - 1] = "".join([*lines[: start.row - 1], edit.content, *tail])
    made = changed(document)
    assert made is not None
    assert texts == sources(made.content.decode())


def test_comments_silence() -> None:
    """At the line, and for the whole notebook from any cell."""
    cells = cut(LOOP)
    silent = [cell.replace("loss / steps", "loss / steps  # gafixer: ignore[GA101] even") for cell in cells]
    assert found(notebook(*cells))
    assert found(notebook(*silent)) == []
    assert changed(notebook(*silent)) is None
    assert found(notebook("# gafixer: file-ignore[mean-over-steps]", *cells)) == []


UNREADABLE = {
    "no json": ("{\n  backward", "not a notebook: no JSON", (2, 3)),
    "a list": ('["backward"]', "not a notebook: no cells", (1, 1)),
    "format 3": ('{"worksheets": ["backward"]}', "a notebook of format 3; format 4 can be read", (1, 1)),
    "deep": ("[" * 100_000 + "backward", "not a notebook: JSON nested too deeply", (1, 1)),
}


@pytest.mark.parametrize(("document", "message", "place"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_notebook(document: str, message: str, place: tuple[int, int]) -> None:
    """One finding, at a place of the document."""
    (finding,) = found(document)
    assert finding.code == "GA900"
    assert finding.message.startswith(message)
    assert (finding.place.cell, finding.place.span.start) == (None, Position(*place))
    assert programs.readable(document.encode(), "nb.ipynb").text(None) == document


def test_bytes_that_are_no_text() -> None:
    """One finding, also where the prefilter sees nothing."""
    outcome = Scanner(SETTINGS).source(b'{\n"cells": ["\xff"]}', "nb.ipynb")
    assert [(f.code, f.place.span.start.row) for f in outcome.findings] == [("GA900", 2)]


def test_a_cell_that_is_no_python() -> None:
    """It is told, and the other cells are scanned and fixed as if it were not there."""
    cells = cut(LOOP)
    with_it = [*cells[:TRAIN], "def evaluate():\n    x = 1\n\ty = (", *cells[TRAIN:], "print 'x'"]
    both = found(notebook(*with_it))
    assert sorted((f.code, f.place.cell, f.place.span.start.row) for f in both if f.code == "GA900") == [
        ("GA900", TRAIN + 1, 3),
        ("GA900", len(with_it), 1),
    ]
    (alone,) = found(notebook(*cells))
    (other,) = [f for f in both if f.code != "GA900"]
    assert (other.message, other.place.cell, other.place.span) == (alone.message, TRAIN + 2, alone.place.span)
    made, plain = changed(notebook(*with_it)), changed(notebook(*cells))
    assert made is not None
    assert plain is not None
    after = sources(made.content.decode())
    assert [after[TRAIN], after[-1]] == [with_it[TRAIN], with_it[-1]]
    assert [*after[:TRAIN], *after[TRAIN + 1 : -1]] == sources(plain.content.decode())


def test_other_languages() -> None:
    """A notebook of another language has nothing to say, named or not."""
    document = notebook("loss.backward() {", language="julia").encode()
    assert Scanner(SETTINGS).source(document, "nb.ipynb") is NOTHING
    assert Scanner(SETTINGS).source(document, "nb.ipynb", named=True) is NOTHING
    assert [f.code for f in found(notebook("loss.backward() {", language=None))] == ["GA900"]


def test_a_named_notebook_has_to_be_python() -> None:
    """Though nothing in it may train; in a folder it is passed over."""
    document = notebook("x = 1", "x = (").encode()
    assert Scanner(SETTINGS).source(document, "nb.ipynb") is NOTHING
    named = Scanner(SETTINGS).source(document, "nb.ipynb", named=True)
    assert [(f.code, f.place.cell) for f in named.findings] == [("GA900", 2)]


@pytest.mark.parametrize("document", ["{}", '{"cells": []}', '{"cells": [{}]}', '{"cells": [{"cell_type": "code"}]}'])
def test_little_notebooks(document: str) -> None:
    """No cells, or cells without a source: nothing to find."""
    if document == "{}":
        with pytest.raises(UnreadableError):
            Notebook.read(document.encode(), "nb.ipynb")
        return
    assert Scanner(SETTINGS).source(document.encode(), "nb.ipynb", named=True) is NOTHING


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", [LISTS, STRINGS])
@pytest.mark.parametrize("name", BAD)
def test_the_prefilter_rejects_no_notebook_that_matters(name: str, kind: str, style: str) -> None:
    """What may matter as a script may matter as a document, however that is written."""
    glued = BAD[name].replace("import", "\timport").replace("loss", "é\tloss")  # words glued to escapes
    for program in (BAD[name], glued):
        document = notebook(program, style=style, sources=kind).encode()
        assert prefilter.may_matter_in_json(document) or not prefilter.may_matter(program.encode())


def test_the_prefilter_rejects_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook that can't matter is not opened; what its cells hold decides of the others."""
    monkeypatch.setattr(programs, "opened", None)
    document = json.dumps({"cells": [{"cell_type": "code", "source": "import pandas"}]}).encode()
    assert not engine.wanted_notebook(document)
    assert Scanner(SETTINGS).source(document, "nb.ipynb") is NOTHING


def test_a_cell_that_is_indented_as_a_whole() -> None:
    """IPython takes the first line's indentation off; places and fixes are those of the cell as it is written."""
    inner = "\n".join(f"  {line}" if line else line for line in cut(LOOP)[TRAIN].split("\n"))
    cells = cut(LOOP)
    plain = found(notebook(*cells))
    cells[TRAIN] = inner
    shifted = found(notebook(*cells))
    assert [f.code for f in shifted] == [f.code for f in plain]
    for mine, other in zip(shifted, plain, strict=True):
        start, end = mine.place.span.start, other.place.span.start
        assert (start.row, start.column) == (end.row, end.column + 2)
    made = changed(notebook(*cells))
    assert made is not None
    lines = sources(made.content.decode())[TRAIN].split("\n")
    assert all(line.startswith("  ") or not line for line in lines)
    assert found(made.content.decode()) == []


def test_a_cell_whose_first_line_alone_is_indented() -> None:
    """What follows stands unindented: it runs as it is, but nobody can tell how it is to be written back."""
    cells = cut(LOOP)
    cells[TRAIN] = f" {cells[TRAIN]}\nDONE = True"
    assert [f.code for f in found(notebook(*cells))] == [f.code for f in found(notebook(*cut(LOOP)))]
    made = fixing.change(notebook(*cells).encode(), "nb.ipynb", Scanner(UNSAFE))
    assert isinstance(made, Failure)
    assert "some lines of the cell are indented" in made.reason
