"""What the default loss of a model averages over: by the model's own forward, or by the kind of head that it is."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gafixer.codemod.count import atomic, stripped
from gafixer.codemod.plan import DeclinedError
from gafixer.codemod.tree import spelled
from gafixer.data.losses import HEADS, SAMPLE_HEADS, SHIFTING_HEADS, TOKEN_HEADS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gafixer.analysis.site import Site
    from gafixer.codemod.tree import Tree

__all__ = ["kinds", "known_keys", "labels_count", "made_in_project"]

_COUNTS = {"shifted": "[..., 1:].ne(-100).sum()", "tokens": ".ne(-100).sum()", "samples": ".size(0)"}
_KINDS = {"shifted": SHIFTING_HEADS, "tokens": TOKEN_HEADS, "samples": SAMPLE_HEADS}
_LABELS = re.compile(r"(^|_)labels$")


def labels_count(tree: Tree, call: ast.Call, kind: str) -> str:
    """Code that counts the labels which a head of Transformers scores, in a call of it.

    Raises:
        DeclinedError: it gets no labels.
    """
    labels = next((k.value for k in call.keywords if k.arg is not None and _LABELS.search(k.arg)), None)
    if labels is not None:
        return atomic(stripped(labels)) + _COUNTS[kind]
    spread = [k.value for k in call.keywords if k.arg is None]
    if len(spread) != 1 or spelled(spread[0]) is None or "labels" not in known_keys(tree, spread[0]):
        raise DeclinedError("the head's labels are not in sight")
    return f'{spelled(spread[0])}["labels"]{_COUNTS[kind]}'


def known_keys(tree: Tree, spread: ast.expr) -> set[str]:
    """What a dict that is spread into a call is known to hold; a batch from elsewhere is taken to hold labels."""
    made = tree.assignments(tree.function_of(spread), spelled(spread) or "")
    written = [s.value for s in made if isinstance(s, ast.Assign) and isinstance(s.value, ast.Dict)]
    if not written or None in written[-1].keys:
        return {"labels"}
    found = {k.value for k in written[-1].keys if isinstance(k, ast.Constant)}
    name = spelled(spread)
    for node in tree.walk(tree.root):
        match node:
            case ast.Subscript(value=base, slice=ast.Constant(value=key), ctx=ast.Store()) if spelled(base) == name:
                found.add(key)
            case _:
                pass
    return {key for key in found if isinstance(key, str)}


def kinds(tree: Tree, site: Site, call: ast.Call) -> Iterator[set[str]]:
    """The kinds of heads that the call may be: by what its name was made of, by the file, by the files around it."""
    made = (s.value for s in _made(tree, spelled(call.func)) if s.value is not None)
    yield _named(node for value in made for node in ast.walk(value))
    yield _named(tree.walk(tree.root)) if HEADS.search(tree.source) else set()
    around = (text for path, text in site.modules if path != tree.path and HEADS.search(text))
    yield _named(node for text in around for node in ast.walk(ast.parse(text)))


def made_in_project(tree: Tree, site: Site, call: ast.Call) -> bool:
    """Whether a function of another file of the project makes the model: what it is stands there."""
    files = {path.rpartition("/")[2].removesuffix(".py") for path, _ in site.modules if path != tree.path}
    project = {
        alias.asname or alias.name
        for node in tree.walk(tree.root)
        if isinstance(node, ast.ImportFrom) and (node.module or "").rpartition(".")[2] in files
        for alias in node.names
    }
    values = [s.value for s in _made(tree, spelled(call.func)) if s.value is not None]
    return any(isinstance(value, ast.Call) and spelled(value.func) in project for value in values)


def _made(tree: Tree, key: str | None) -> Iterator[ast.Assign | ast.AnnAssign]:
    """What is assigned to a name, anywhere in the file."""
    for node in tree.walk(tree.root):
        match node:
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) if key == spelled(target):
                yield node
            case _:
                pass


def _named(nodes: Iterable[ast.AST]) -> set[str]:
    """The kinds of the classes that code names; imports alone make nothing."""
    names = set()
    for node in nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str() as name):
                names.add(name)
            case _:
                pass
    heads = [name for name in names if HEADS.search(name)]
    return {kind for kind, pattern in _KINDS.items() if any(re.fullmatch(pattern, name) for name in heads)}
