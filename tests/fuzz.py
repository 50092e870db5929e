"""`python -m tests.fuzz [--examples 50000] TREE...`: real code, changed at random, through scan and fix.

Of every example it holds that
- the scan neither raises nor says GA900 of what Python reads, nor offers a fix for what it does not;
- what `--fix --unsafe-fixes` makes compiles where the example did, keeps every comment, and has nothing left to fix.

Prints what failed with the seed that makes it again; exit 1 when something did.
"""

from __future__ import annotations

import ast
import io
import random
import re
import time
import tokenize
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gafixer import engine, fixing
from gafixer.scan import Failure, Scanner
from gafixer.settings import Hierarchy, Layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TOKEN = re.compile(r"\w+|[^\w\s]|\s+")
_ODD = (
    "\x00",
    "\f",
    "\t",
    "\r",
    "\r\n",
    "\\\n",
    "\x1b[31m",
    "\ufeff",
    "\u2028",
    "é",
    "(" * 200,
    "not ",
    "#",
    '"""',
    "'",
    ";",
)
_OPERATORS = (
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "@",
    "==",
    "!=",
    "<",
    ">=",
    "and",
    "or",
    "is",
    "in",
    ":=",
    "=",
    "+=",
    "/=",
)
_AROUND = (
    "if a:",
    "for b in c:",
    "while d:",
    "with e as g:",
    "try:",
    "def h(self):",
    "class K:",
    "else:",
    "async def m():",
)


def _line_changed(lines: list[str], draw: random.Random) -> None:
    at = draw.randrange(len(lines))
    match draw.randrange(8):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, draw.choice(lines))
        case 2:
            other = draw.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at] = draw.choice((" ", "    ", "\t")) + lines[at]
        case 4:
            lines[at] = lines[at].removeprefix("    ")
        case 5:
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            lines[at : at + 1] = [indent + draw.choice(_AROUND), f"    {lines[at]}"]
        case 6:
            lines[at] += draw.choice(_ODD)
        case _:
            del lines[at:]
            lines.append("")


def _token_changed(text: str, draw: random.Random) -> str:
    tokens = _TOKEN.findall(text)
    at = draw.randrange(len(tokens))
    match draw.randrange(5):
        case 0:
            del tokens[at]
        case 1:
            tokens[at] = draw.choice(tokens)
        case 2:
            tokens.insert(at, draw.choice(_ODD))
        case 3:
            tokens[at] = draw.choice(_OPERATORS)
        case _:
            tokens[at] = str(draw.choice((0, 1, -1, 2, 4, 0.5, 10**30, "None", "True", "k")))
    return "".join(tokens)


class _Trees(ast.NodeTransformer):
    """Puts expressions and statements of a program in each other's places."""

    def __init__(self, tree: ast.Module, draw: random.Random, share: float) -> None:
        nodes = list(ast.walk(tree))
        self._expressions = [
            n for n in nodes if isinstance(n, ast.expr) and isinstance(getattr(n, "ctx", None), ast.Load | None)
        ]
        self._statements = [n for n in nodes if isinstance(n, ast.stmt)]
        self._draw = draw
        self._share = share

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if self._draw.random() < self._share:
            if isinstance(node, ast.expr) and node in self._expressions:
                return self._draw.choice(self._expressions)
            if isinstance(node, ast.stmt):
                return self._draw.choice(self._statements)
        return super().generic_visit(node)


def _tree_changed(text: str, draw: random.Random) -> str:
    try:
        tree = ast.parse(text)
        changed = _Trees(ast.parse(text), draw, draw.choice((0.002, 0.01, 0.03))).visit(tree)
        return ast.unparse(ast.fix_missing_locations(changed))
    except (SyntaxError, ValueError, RecursionError, TypeError, AttributeError, MemoryError):
        return text


def mutated(text: str, draw: random.Random) -> bytes:
    """One program made of another by a few changes; often still Python, often not."""
    if draw.random() < 0.5:
        text = _tree_changed(text, draw)
    for _ in range(draw.choice((0, 1, 1, 2, 5))):
        if draw.random() < 0.5:
            lines = text.split("\n")
            _line_changed(lines, draw)
            text = "\n".join(lines)
        elif text:
            text = _token_changed(text, draw)
    data = text.encode("utf-8", "surrogatepass")
    if draw.random() < 0.05:
        data = data.replace(b"\n", draw.choice((b"\r\n", b"\r")))
    if draw.random() < 0.03:
        at = draw.randrange(len(data) + 1)
        data = (
            data[:at]
            + draw.choice((b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x00", b"# coding: utf-7\n"))
            + data[at:]
        )
    return data


def _comments(source: bytes) -> Counter[str]:
    tokens = tokenize.tokenize(io.BytesIO(re.sub(rb"\r\n?", b"\n", source)).readline)
    return Counter(token.string.strip() for token in tokens if token.type == tokenize.COMMENT)


def _parses(source: bytes) -> bool:
    """Whether Python reads it; what is too deep for the running Python's parser is not read."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        ast.parse(source.decode(encoding))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _compiles(source: bytes) -> bool:
    try:
        compile(source, "example.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def faults(source: bytes, settings: Hierarchy) -> Iterator[str]:
    """What goes wrong with one example."""
    scanner = Scanner(settings)
    outcome = scanner.source(source, "example.py", named=True)
    if outcome.failure is not None:
        yield outcome.failure.trace or outcome.failure.reason
        return
    parses = _parses(source)
    if parses and any(finding.code == "GA900" for finding in outcome.findings):
        yield "GA900 of what Python reads"
    # What is said of another file, such as one of requirements, is not this one's to mend.
    own = [finding for finding in outcome.findings if finding.place.filename == "example.py"]
    if not any(fixing.accepted(finding, unsafe=True) for finding in own):
        return
    if not parses:
        yield "a fix is offered for what Python does not read"
    changed = fixing.change(source, "example.py", scanner)
    match changed:
        case None:
            yield "a fix that is offered is not made"
        case Failure():
            yield changed.trace or changed.reason
        case fixing.Changed(content=content):
            if _compiles(source) and not _compiles(content):
                yield "what the fix makes does not compile"
                return
            if lost := _comments(source) - _comments(content):
                yield f"comments lost: {sorted(lost)}"
            again = fixing.change(content, "example.py", scanner)
            if again is not None:
                yield "a second fix finds more to do"


def _sources(trees: Sequence[Path]) -> list[str]:
    paths = [p for tree in trees for p in (sorted(tree.rglob("*.py")) if tree.is_dir() else [tree])]
    texts = []
    for path in paths:
        data = path.read_bytes()
        if len(data) < 30_000 and engine.wanted(data) and _parses(data):
            texts.append(data.decode("utf-8", "ignore"))
    return texts


def _run(seed: int, texts: Sequence[str], settings: Hierarchy) -> tuple[bytes, list[str]]:
    draw = random.Random(seed)
    source = mutated(draw.choice(texts), draw)
    try:
        return source, list(faults(source, settings))
    except Exception:  # whatever is raised is what is looked for
        return source, [traceback.format_exc()]


def _timed(seed: int, texts: Sequence[str], settings: Hierarchy, slow: float) -> tuple[bytes, list[str]]:
    begin = time.process_time()
    source, wrong = _run(seed, texts, settings)
    if (seconds := time.process_time() - begin) > slow:
        wrong = [*wrong, f"it took {seconds:.1f} s of CPU"]
    return source, wrong


@click.command()
@click.argument("trees", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--examples", type=click.IntRange(min=1), default=50_000, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the first example; the next has the next one.")
@click.option("--slow", type=float, default=20.0, show_default=True, help="Seconds of CPU beyond which one is a fault.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Folder for the examples that fail.")
def main(trees: tuple[Path, ...], examples: int, seed: int, slow: float, keep: Path | None) -> None:
    """Scan and fix changed copies of the files of each TREE."""
    warnings.simplefilter("ignore")  # Python's own, about the examples
    texts = _sources(trees)
    settings = Hierarchy(Layer(unsafe_fixes=True), isolated=True)
    kinds: Counter[str] = Counter()
    for number in range(seed, seed + examples):
        source, wrong = _timed(number, texts, settings, slow)
        for fault in wrong:
            last = fault.strip().splitlines()
            kind = " / ".join(last[-3:]) if len(last) > 3 else fault
            kinds[kind] += 1
            if kinds[kind] <= 3:
                click.echo(f"seed {number}: {kind}")
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{number}.py").write_bytes(source)
    click.echo(f"{examples} examples from {len(texts)} files: {sum(kinds.values())} faults of {len(kinds)} kinds")
    raise SystemExit(bool(kinds))


if __name__ == "__main__":
    main()
