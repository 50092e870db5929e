"""What a plan adds to the top level of a file: functions before their first use, imports in their order."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

import libcst as cst

from gafixer.codemod.tree import spot_of
from gafixer.notebooks import BOUNDARY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.codemod.locate import Locator, Statement
    from gafixer.codemod.tree import Tree

__all__ = ["with_top"]


def with_top(
    tree: Tree,
    locate: Locator,
    before: cst.Module,
    after: cst.Module,
    top: Sequence[str],
    row: int,
    imports: Sequence[str],
) -> cst.Module:
    """Put functions before the top-level function or class that row is in; for a script, after its imports.

    What runs in a cell of a notebook has its functions in that cell.
    """
    if not top and not imports:
        return after
    body = list(after.body)
    header = list(after.header)
    if top:
        there = next(node for node in tree.root.body if (node.end_lineno or 0) >= row)
        defines = isinstance(there, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        # Statements of the top level are never moved or removed, so both modules count them alike.
        place = before.body.index(locate.statement(spot_of(tree, there))) if defines else None
        index = place if place is not None else _script_index(tree, after.body, row)
        made = [cst.parse_statement(text, before.config_for_parsing) for text in top]
        above = _two_blank(header if index == 0 else [])
        if index == 0 and header:
            header = above
            made = [made[0], *(_spaced(node) for node in made[1:])]
        elif index:
            made = [_spaced(node) for node in made]
        if index < len(body):
            body[index] = _spaced(body[index])
        body[index:index] = made
    for line in imports:
        _insert_import(body, line, cst.parse_statement(line, before.config_for_parsing))
    return after.with_changes(header=header, body=body)


def _two_blank(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """Lines that end with two blank ones."""
    kept = list(lines)
    while kept and kept[-1].comment is None:
        kept.pop()
    return [*kept, *[cst.EmptyLine(indent=False)] * 2] if kept else []


def _spaced(node: Statement) -> Statement:
    """A statement with at least two blank lines above it and above its comments."""
    lines = list(getattr(node, "leading_lines", ()))
    blank = next((i for i, line in enumerate(lines) if line.comment is not None), len(lines))
    return (
        node.with_changes(leading_lines=[*[cst.EmptyLine(indent=False)] * (2 - blank), *lines]) if blank < 2 else node
    )


def _is_import(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and any(
        isinstance(s, cst.Import | cst.ImportFrom) for s in node.body
    )


def _is_standard(node: cst.CSTNode) -> bool:
    """Whether a line imports from the standard library."""
    match node:
        case cst.SimpleStatementLine(body=[cst.Import(names=[cst.ImportAlias(name=name), *_])]):
            pass
        case cst.SimpleStatementLine(body=[cst.ImportFrom(module=cst.Name() | cst.Attribute() as name, relative=[])]):
            pass
        case _:
            return False
    root = cst.Module([]).code_for_node(name).partition(".")[0]
    return root in sys.stdlib_module_names and root != "__future__"


def _source(node: cst.CSTNode) -> str | None:
    """The module of a line ``from module import name``."""
    match node:
        case cst.SimpleStatementLine(body=[cst.ImportFrom(module=cst.Name() | cst.Attribute() as source)]):
            return cst.Module([]).code_for_node(source)
        case _:
            return None


def _is_future(node: cst.CSTNode) -> bool:
    return "__future__" in cst.Module([]).code_for_node(node)


def _script_index(tree: Tree, body: Sequence[cst.CSTNode], row: int) -> int:
    """After the imports at the head of the file, or of the notebook's cell that `row` is in."""
    boundary = ast.dump(ast.parse(BOUNDARY).body[0])
    alone = (node for node in tree.root.body if isinstance(node, ast.Expr) and node.lineno < row)
    cells = sum(ast.dump(node) == boundary for node in alone)
    bounds = [-1, *(index for index, node in enumerate(body) if _is_boundary(node)), len(body)]
    start = bounds[cells] + 1
    return start + _import_index(body[start : bounds[cells + 1]])


def _is_boundary(node: cst.CSTNode) -> bool:
    match node:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.SimpleString(value=value))]):
            return value == BOUNDARY
        case _:
            return False


def _import_index(body: Sequence[cst.CSTNode]) -> int:
    """After the imports at the head of these statements, within the first cell of a notebook."""
    last = 0
    for index, node in enumerate(body):
        if _is_import(node):
            last = index + 1
        elif (_is_boundary(node) and last) or isinstance(node, cst.FunctionDef | cst.ClassDef | cst.For | cst.While):
            break
    return last


def _insert_import(body: list[Statement], line: str, new: Statement) -> None:
    """Put ``import name`` where sorted imports have it: after smaller names of its kind, before `from` imports.

    A `from` import joins the one of its module if that is on one line; else it goes behind all, one of the standard
    library behind those of its kind.
    """
    if line.startswith("from "):
        if _joins_import(body, new):
            return
        root = line.split()[1].partition(".")[0]
        known = [i for i, node in enumerate(body[: _import_index(body)]) if _is_standard(node)]
        if root not in sys.stdlib_module_names or not known:
            body.insert(_import_index(body), new)
            return
        later = [i for i in known if (_source(body[i]) or "") > line.split()[1]]
        body.insert(later[0] if later else known[-1] + 1, new)
        return
    plain: list[tuple[int, str]] = []
    first = None
    for index, node in enumerate(body):
        match node:
            case cst.SimpleStatementLine(body=[cst.Import(names=[cst.ImportAlias(name=name), *_])]):
                plain.append((index, cst.Module([]).code_for_node(name)))
            case cst.SimpleStatementLine(body=[cst.ImportFrom(module=cst.Name(value="__future__"))]):
                first = None
            case cst.SimpleStatementLine(body=[cst.ImportFrom(module=module)]) if module is not None and first is None:
                root = cst.Module([]).code_for_node(module).partition(".")[0]
                first = None if root in sys.stdlib_module_names else index
            case cst.FunctionDef() | cst.ClassDef():
                break
            case _:
                pass
    mine = line.split()[1]
    standard = mine.partition(".")[0] in sys.stdlib_module_names
    ours = [(i, name) for i, name in plain if (name.partition(".")[0] in sys.stdlib_module_names) is standard]
    smaller = [i for i, name in ours if name < mine]
    if smaller:
        body.insert(smaller[-1] + 1, new)
        return
    if standard and not ours:
        first = next((i for i, node in enumerate(body) if _is_import(node) and not _is_future(node)), None)
    where = ours[0][0] if ours else first
    if where is None:
        where = plain[-1][0] + 1 if plain else 0
        body.insert(where, new)
        return
    following = body[where]
    body[where : where + 1] = [
        new.with_changes(leading_lines=getattr(following, "leading_lines", ())),
        following.with_changes(leading_lines=()),
    ]


def _joins_import(body: list[Statement], new: Statement) -> bool:
    """Let a `from` import of the same module import this name, too, in its order; whether there is one."""
    match new:
        case cst.SimpleStatementLine(body=[cst.ImportFrom(names=[cst.ImportAlias() as wanted])]):
            pass
        case _:
            return False
    for index, node in enumerate(body):
        match node:
            case cst.SimpleStatementLine(body=[cst.ImportFrom(lpar=None, names=[*names]) as there]) if _source(
                node
            ) == _source(new):
                later = [i for i, alias in enumerate(names) if _name(alias) > _name(wanted)]
                names.insert(later[0] if later else len(names), wanted)
                spaced = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
                names = [n.with_changes(comma=spaced) for n in names[:-1]] + [
                    names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
                ]
                body[index] = node.with_changes(body=[there.with_changes(names=names)])
                return True
            case _:
                pass
    return False


def _name(alias: cst.ImportAlias) -> str:
    return cst.Module([]).code_for_node(alias.name)
