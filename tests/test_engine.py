"""The engine takes any bytes: it never raises, says the same twice, is quick, and runs nothing of what it reads."""

from __future__ import annotations

import random
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gafixer import engine
from gafixer.analysis.checkout import FileProject
from gafixer.analysis.project import MemoryProject
from gafixer.settings import Settings
from tests.analysis.scanning import ALL, scan, training
from tests.hostile import GUARDS, HOSTILE

LIBRARY = Path(sysconfig.get_paths()["stdlib"])
ROOT = Path(__file__).parents[1]
CODES = set(ALL.selected)
#: Processor seconds that no file here may take, many times what any takes.
SLOW = 10.0


def check(source: bytes) -> engine.Report:
    """The report, which must come soon and be the same a second time."""
    start = time.process_time()
    report = engine.check_source(source, "train.py", MemoryProject({}), ALL)
    assert time.process_time() - start < SLOW
    assert {f.code for f in report.findings} <= CODES
    assert list(report.findings) == sorted(report.findings, key=lambda f: f.order)
    return report


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_code(name: str) -> None:
    """Read to the end: it is Python."""
    report = check(HOSTILE[name].encode())
    assert "GA900" not in {f.code for f in report.findings}
    assert engine.check_source(HOSTILE[name].encode(), "train.py", MemoryProject({}), ALL) == report


@pytest.mark.parametrize("test", GUARDS)
def test_senseless_guards(test: str) -> None:
    """A step that never comes, or comes by no number."""
    assert "GA900" not in {f.code for f in check(GUARDS[test].encode()).findings}


def test_arms_that_are_run_one_after_the_other_are_seen() -> None:
    """A backward call in the last of many arms is a site still."""
    arms = "".join(f"    elif task == {k}:\n        pass\n" for k in range(1, 300))
    source = f"def f(task, loss):\n    if task == 0:\n        pass\n{arms}    else:\n        loss.backward()\n"
    traced = engine.trace(source.encode(), "train.py", MemoryProject({}), 3)
    assert traced.startswith("backward (PyTorch)")


# -- mutated ---------------------------------------------------------------------------------------------------------

#: Words that make the analysis look at a file.
WORDS = (
    "loss",
    "loss.backward()",
    "optimizer.step()",
    "optimizer.zero_grad()",
    "loss / n",
    "loss.item()",
    "loss.mean()",
    "model(x).loss",
    "F.cross_entropy(x, y)",
    "(i + 1) % n == 0",
    "sum(losses) / len(losses)",
    "accelerator.backward(loss)",
    "self.loss",
    "super().forward(x)",
)


def _seeds() -> list[str]:
    paths = sorted(p for p in LIBRARY.glob("*.py") if 2_000 < p.stat().st_size < 20_000)
    chosen = random.Random(1).sample(paths, 12)
    chosen += sorted((ROOT / "rules").glob("GA*/bad.py"))
    return [path.read_text(encoding="utf-8", errors="replace") for path in chosen]


SEEDS = _seeds()


def _trains(source: str, chance: random.Random) -> str:
    """The same shape of code, with names and calls replaced by those of training."""
    lines = source.split("\n")
    for row, line in enumerate(lines):
        head, equals, tail = line.partition(" = ")
        if equals and "(" not in head and chance.random() < 0.4:
            lines[row] = f"{head} = {chance.choice(WORDS)}" if tail.count("(") == tail.count(")") else line
        elif line.strip().startswith("return ") and line.count("(") == line.count(")") and chance.random() < 0.5:
            lines[row] = line[: line.index("return ")] + f"return {chance.choice(WORDS)}"
        elif line.strip() in {"pass", "continue", "break"}:
            lines[row] = line.replace(line.strip(), chance.choice(WORDS))
    return "\n".join(lines)


def _damaged(source: str, chance: random.Random) -> str:
    """Lines and characters lost, doubled and swapped: mostly no Python any more."""
    lines = source.split("\n")
    for _ in range(chance.randrange(1, 6)):
        row = chance.randrange(len(lines))
        match chance.randrange(4):
            case 0:
                del lines[row]
            case 1:
                lines.insert(row, chance.choice(lines))
            case 2:
                lines[row] = lines[row][: chance.randrange(len(lines[row]) + 1)]
            case _:
                lines[row] += chance.choice("()[]{}'\":\\\t\f\0é訓")
        lines = lines or [""]
    return "\n".join(lines)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SEEDS), st.integers())
def test_training_code_of_any_shape(source: str, seed: int) -> None:
    """Real control flow, with training in it."""
    check(_trains(source, random.Random(seed)).encode())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SEEDS), st.integers())
def test_damaged_code(source: str, seed: int) -> None:
    """A report in any case; one that says GA900 says nothing else."""
    chance = random.Random(seed)
    report = check(_damaged(_trains(source, chance), chance).encode("utf-8", "surrogatepass"))
    codes = [f.code for f in report.findings]
    assert "GA900" not in codes or codes == ["GA900"]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(source: bytes) -> None:
    """Also none at all."""
    check(source + b"\nloss.backward()")
    engine.wanted(source)


_NAMES = st.sampled_from(["loss", "x", "model", "optimizer", "n", "i", "loader", "losses", "mask", "F", "torch"])
_OPERATORS = st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "<", "==", "!=", "and", "or"])
_LEAVES = st.one_of(_NAMES, st.integers(-3, 9).map(str), st.sampled_from(["None", "True", "'a'", "1e-8", "[]", "()"]))
_EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, _OPERATORS, inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(["mean", "sum", "backward", "item", "loss", "step", "div_", "detach"])).map(
            lambda t: f"({t[0]}).{t[1]}"
        ),
        st.tuples(inner, st.lists(inner, max_size=3)).map(lambda t: f"({t[0]})({', '.join(t[1])})"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]})[{t[1]}]"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.tuples(inner, _NAMES, inner).map(lambda t: f"[{t[0]} for {t[1]} in {t[2]}]"),
        st.tuples(_NAMES, inner).map(lambda t: f"(lambda {t[0]}: {t[1]})"),
    ),
    max_leaves=6,
)


def _indented(blocks: list[str]) -> str:
    lines = "\n".join(blocks) if blocks else "pass"
    return "\n".join("    " + line for line in lines.split("\n"))


_STATEMENTS = st.recursive(
    st.one_of(
        st.tuples(_NAMES, st.sampled_from(["=", "+=", "/=", "*="]), _EXPRESSIONS).map(" ".join),
        _EXPRESSIONS,
        st.sampled_from(["loss.backward()", "optimizer.step()", "optimizer.zero_grad()", "i += 1", "i = 0", "return"]),
        st.sampled_from(["losses.append(loss)", "return loss", "raise x", "self.loss = loss", "loss.div_(n)"]),
    ),
    lambda inner: st.one_of(
        st.tuples(_EXPRESSIONS, st.lists(inner, max_size=3)).map(lambda t: f"if {t[0]}:\n{_indented(t[1])}"),
        st.tuples(_NAMES, _EXPRESSIONS, st.lists(inner, max_size=4)).map(
            lambda t: f"for {t[0]} in {t[1]}:\n{_indented(t[2])}"
        ),
        st.tuples(_EXPRESSIONS, st.lists(inner, max_size=3)).map(lambda t: f"while {t[0]}:\n{_indented(t[1])}"),
        st.tuples(_EXPRESSIONS, st.lists(inner, max_size=3)).map(lambda t: f"with {t[0]} as x:\n{_indented(t[1])}"),
        st.tuples(_NAMES, st.lists(inner, max_size=3)).map(lambda t: f"def {t[0]}(x, n=4):\n{_indented(t[1])}"),
        st.tuples(st.lists(inner, max_size=2), st.lists(inner, max_size=2)).map(
            lambda t: f"try:\n{_indented(t[0])}\nexcept E:\n{_indented(t[1])}"
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(st.lists(_STATEMENTS, min_size=1, max_size=6))
def test_grown_code(statements: list[str]) -> None:
    """Any statements, at the top and in a function."""
    check(f"{_indented(statements).replace(chr(10) + '    ', chr(10))[4:]}\nloss.backward()\n".encode())
    check(f"def train(self, loss, model, optimizer, n):\n{_indented(statements)}\n    loss.backward()\n".encode())


# -- purity ----------------------------------------------------------------------------------------------------------


def test_scanned_code_is_neither_imported_nor_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the file, not what it imports; no bytecode is left behind."""
    mark = tmp_path / "was_run"
    run = f"open({str(mark)!r}, 'w').close()\n"
    (tmp_path / "helper_that_tells.py").write_text(run + "def compute(loss, n):\n    return loss / n\n")
    source = (
        run
        + "from helper_that_tells import compute\n"
        + training("compute(loss, n).backward()", "@compute\ndef decorated(a=open('x')):\n    ...\n")
    )
    (tmp_path / "train.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    engine.check_source(source.encode(), "train.py", FileProject(), ALL)
    engine.trace(source.encode(), "train.py", FileProject(), 9)
    assert not mark.exists()
    assert "helper_that_tells" not in set(sys.modules) - before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["helper_that_tells.py", "train.py"]


def test_modules_that_import_each_other() -> None:
    """And a project that doesn't parse."""
    source = "from a import *\nimport b\nfrom b import f\n" + training("f(b.g(loss), n).backward()")
    modules = {
        "a": "from b import *\nfrom train import train\ndef g(loss):\n    return f(loss, 2)\n",
        "b": "from a import *\nimport train\ndef f(loss, n):\n    return g(loss) / n\n",
        "train": source,
    }
    assert scan(source, **modules) == scan(source, **modules)
    assert scan(source, a="def (", b="") == scan(source, a="def (", b="")


def test_warnings_of_scanned_code_are_nobodys() -> None:
    """Python warns of ``is 1`` and of unknown escapes when it parses them; here a warning would be an error."""
    assert check(b"x = '\\d'\nif x is 1: loss.backward()\n") is not None


# -- selection and GA900 ---------------------------------------------------------------------------------------------


def test_only_selected_rules_speak() -> None:
    """Each by itself, and GA900 too."""
    source = training("(model(x, labels=y).loss / n).backward()").encode()
    whole = engine.check_source(source, "train.py", MemoryProject({}), ALL).findings
    assert whole
    for finding in whole:
        one = Settings(frozenset({finding.code}))
        found = engine.check_source(source, "train.py", MemoryProject({}), one).findings
        assert found == tuple(f for f in whole if f.code == finding.code)
    none = Settings(frozenset())
    assert engine.check_source(source, "train.py", MemoryProject({}), none).findings == ()
    assert engine.check_source(b"def (", "train.py", MemoryProject({}), none).findings == ()


def test_unreadable_though_each_head_is_read_by_itself() -> None:
    """All blocks were looked at and one was broken: the file is."""
    head = """\
class XForTokenClassification(PreTrainedModel):
    def forward(self, x, labels=None, **kwargs):
        return {"loss": F.cross_entropy(self.head(x), labels)}
"""
    imports = "import torch.nn.functional as F\nfrom transformers import PreTrainedModel\nimport torch\n"
    source = f"{imports}    class A(PreTrainedModel):\n    x = 1\n{head}"
    (finding,) = engine.check_source(source.encode(), "model.py", MemoryProject({}), ALL).findings
    assert (finding.code, finding.place.span.start.row) == ("GA900", 4)


def test_unreadable_is_one_finding_of_one_character() -> None:
    """At the place that Python names, and the message is Python's."""
    (finding,) = engine.check_source(b"x = 1\nloss.backward()\ny = (\n", "a/b.py", MemoryProject({}), ALL).findings
    assert (finding.code, finding.place.filename, finding.severity.value) == ("GA900", "a/b.py", "error")
    start, end = finding.place.span.start, finding.place.span.end
    assert (start.row, start.column) == (3, 5)
    assert (end.row, end.column) == (3, 6)
    assert "never closed" in finding.message


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (b"", False),
        (b"x = 1", False),
        (b"loss.backward()", True),
        (b"backwards = 1", False),
        (b"num_items_in_batch", True),
        (b"x = 1\0", True),
        ("s = '訓'".encode(), False),
        (b"s = '\xff'", True),
        (b"# coding: latin-1\ns = '\xff'", False),
        (b"# coding: no-such-thing\n", True),
        (b"# coding: ascii\ns = '\xff'", True),
    ],
)
def test_wanted(source: bytes, *, wanted: bool) -> None:
    """A file that trains, or one that is no text."""
    assert engine.wanted(source) is wanted
