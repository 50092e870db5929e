"""One libcst transformation of a file: the parts of its plans, all at once."""

from __future__ import annotations

import ast
import functools
import itertools
from collections import defaultdict
from typing import TYPE_CHECKING

import libcst as cst

from gafixer.codemod.arguments import with_keyword, with_parameter, with_spread
from gafixer.codemod.kept import Shortened, shortened
from gafixer.codemod.locate import Locator, Statement
from gafixer.codemod.plan import (
    DeclinedError,
    Insert,
    Keyword,
    Move,
    Operand,
    Parameter,
    Remove,
    Replace,
    Rewrite,
    Spread,
    Unwrap,
    Where,
)
from gafixer.codemod.text import LONG
from gafixer.codemod.toplevel import with_top

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gafixer.codemod.plan import Part
    from gafixer.codemod.tree import Tree

__all__ = ["rewrite"]

_STASH = "_gafixer_moved_"


def rewrite(
    tree: Tree, parts: Iterable[Part], top: Sequence[str] = (), top_row: int = 1, imports: Sequence[str] = ()
) -> str:
    """The new source.

    `top` are functions to put before the top-level statement that row `top_row` is in, `imports` import statements to
    add.

    Raises:
        DeclinedError: a part's place could not be found.
    """
    made = list(parts)
    short, module, locator = _parsed(tree, frozenset(row for part in made for row in _rows(part)))
    change = _Change(tree, locator, module)
    for part in made:
        change.take(part)
    changed = module.visit(change)
    assert isinstance(changed, cst.Module)
    if change.moved:
        changed = changed.visit(_Unstash(change.moved))
        assert isinstance(changed, cst.Module)
    return short.restored(with_top(tree, locator, module, changed, top, top_row, imports).code)


def _rows(part: Part) -> Iterable[int]:
    """The rows where the places of a part begin; all that are taken out."""
    match part:
        case Move(spot=spot, anchor=anchor):
            return (*range(spot.row, spot.end_row + 1), anchor.row)
        case Remove(spot=spot):
            return range(spot.row, spot.end_row + 1)
        case _:
            return (part.spot.row,)


@functools.lru_cache(maxsize=4)
def _parsed(tree: Tree, touched: frozenset[int]) -> tuple[Shortened, cst.Module, Locator]:
    """A file's nodes around these rows, which nothing changes: they serve all plans for it that touch the same."""
    short = shortened(tree, touched)
    try:
        module = cst.parse_module(short.text)
    except cst.ParserSyntaxError as error:
        raise DeclinedError("libcst does not parse this file") from error
    return short, module, Locator(tree, module, short.rows)


class _Change(cst.CSTTransformer):
    def __init__(self, tree: Tree, locator: Locator, module: cst.Module) -> None:
        self._tree = tree
        self._locate = locator
        self._config = module.config_for_parsing
        self._expressions: dict[cst.CSTNode, list[Replace | Unwrap | Keyword | Spread]] = defaultdict(list)
        self._parameters: dict[cst.CSTNode, list[Parameter]] = defaultdict(list)
        self._removed: set[cst.CSTNode] = set()
        self._rewritten: dict[cst.CSTNode, Statement] = {}
        self._moved: dict[cst.CSTNode, str] = {}
        self._beside: dict[cst.CSTNode, list[tuple[Where, int, int, Statement]]] = defaultdict(list)
        self.moved: dict[str, Statement] = {}

    def take(self, part: Part) -> None:
        """Look up the places of a part."""
        match part:
            case Parameter(spot=spot):
                self._parameters[self._locate.statement(spot)].append(part)
            case Replace() | Unwrap() | Keyword() | Spread():
                self._expressions[self._locate.expression(part.spot)].append(part)
            case Rewrite(spot=spot, code=code):
                self._rewritten[self._locate.statement(spot)] = cst.parse_statement(code, self._config)
            case Remove(spot=spot):
                self._removed.add(self._locate.statement(spot))
            case Insert(spot=spot, where=where, code=code, rank=rank):
                new = _with_bare_lines(cst.parse_statement(code, self._config))
                self._beside[self._locate.statement(spot)].append((where, rank, spot.row, new))
            case Move(spot=spot, anchor=anchor, where=where, rank=rank):
                name = f"{_STASH}{len(self._moved)}"
                self._moved[self._locate.statement(spot)] = name
                new = cst.parse_statement(name, self._config)
                self._beside[self._locate.statement(anchor)].append((where, rank, spot.row, new))

    # -- expressions -------------------------------------------------------------------------------------------------

    def on_leave(self, original_node, updated_node):  # type: ignore[no-untyped-def] # libcst's own signature is a TypeVar per node
        """Change expressions; blocks have methods of their own."""
        done = super().on_leave(original_node, updated_node)
        for part in self._expressions.get(original_node, ()):
            match part:
                case Replace(code=code):
                    done = cst.parse_expression(code, self._config)
                case Unwrap(keep=keep):
                    assert isinstance(done, cst.BaseExpression)
                    done = _operand(done, keep)
                case Keyword(name=name, code=code):
                    assert isinstance(done, cst.CSTNode)
                    done = with_keyword(done, name, code, _break_at(self._tree, part))
                case Spread(name=name):
                    assert isinstance(done, cst.CSTNode)
                    done = with_spread(done, name)
        for parameter in self._parameters.get(original_node, ()):
            assert isinstance(done, cst.FunctionDef)
            done = with_parameter(done, parameter.name, parameter.default)
        return done

    # -- statements --------------------------------------------------------------------------------------------------

    def leave_IndentedBlock(  # noqa: N802 - libcst's own naming
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        return updated_node.with_changes(body=self._statements(original_node.body, updated_node.body, apart=1))

    def leave_Module(  # noqa: N802 - the same
        self, original_node: cst.Module, updated_node: cst.Module
    ) -> cst.Module:
        return updated_node.with_changes(body=self._statements(original_node.body, updated_node.body, apart=2))

    def _statements(
        self, before: Sequence[cst.CSTNode], after: Sequence[cst.CSTNode], *, apart: int
    ) -> list[Statement]:
        """A block with its changes; `apart` are the blank lines around a function in it."""
        made: list[Statement] = []
        orphans: list[cst.EmptyLine] = []
        closes = False
        for original, updated in zip(before, after, strict=True):
            assert isinstance(updated, Statement)
            if closes:
                blank, rest = _blank_and_rest(updated.leading_lines)
                more = [cst.EmptyLine(indent=False)] * (apart - len(blank))
                updated = updated.with_changes(leading_lines=[*more, *blank, *rest])
            if original in self._rewritten:
                updated = self._rewritten[original].with_changes(leading_lines=updated.leading_lines)
            beside = sorted(self._beside.get(original, ()), key=lambda entry: entry[1:3])
            new = {where: [entry[3] for entry in beside if entry[0] is where] for where in Where}
            if orphans:
                updated = updated.with_changes(leading_lines=_joined(orphans, updated.leading_lines))
                orphans = []
            made += new[Where.START]
            ahead = new[Where.BEFORE]
            if ahead and original not in self._removed and original not in self._moved:
                blank, rest = _blank_and_rest(updated.leading_lines)
                made += [ahead[0].with_changes(leading_lines=blank), *ahead[1:]]
                if isinstance(ahead[-1], cst.FunctionDef):
                    rest = [*(blank or [cst.EmptyLine(indent=False)]), *rest]
                elif isinstance(updated, cst.FunctionDef):
                    rest = [*(cst.EmptyLine(indent=False) for _ in range(apart)), *rest]
                updated = updated.with_changes(leading_lines=rest)
            else:
                made += ahead
            if original in self._moved:
                blank, rest = _blank_and_rest(updated.leading_lines)
                self.moved[self._moved[original]] = updated.with_changes(leading_lines=rest)
                orphans = blank if blank and made else []
            elif original in self._removed:
                orphans = [*updated.leading_lines, *_footer(updated)]
                if not any(line.comment for line in orphans) and not made:
                    orphans = []
            else:
                made.append(updated)
            made += [_apart(node, apart) for node in new[Where.AFTER]]
            closes = bool(new[Where.AFTER]) and isinstance(made[-1], cst.FunctionDef)
        return made or [cst.SimpleStatementLine([cst.Pass()])]


class _Unstash(cst.CSTTransformer):
    """Puts moved statements where their names stand for them."""

    def __init__(self, moved: dict[str, Statement]) -> None:
        self._moved = moved

    def leave_SimpleStatementLine(  # noqa: N802 - libcst's own naming
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Statement:
        match original_node.body:
            case [cst.Expr(value=cst.Name(value=name))] if name in self._moved:
                found = self._moved[name]
                return found.with_changes(leading_lines=[*updated_node.leading_lines, *found.leading_lines])
            case _:
                return updated_node


def _break_at(tree: Tree, part: Keyword) -> int | None:
    """The column of a call's first argument, where one more would make its last line too long."""
    call = tree.expression(part.spot)
    if not isinstance(call, ast.Call) or not tree.line(call).isascii():
        return None
    last = tree.line_at(call.end_lineno or call.lineno)
    long = len(last) + len(f", {part.name}={part.code}") > LONG
    return (call.func.end_col_offset or 0) + 1 if long and call.func.end_lineno == call.lineno else None


def _blank_and_rest(lines: Sequence[cst.EmptyLine]) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """Blank lines at the head, and the rest, which begins with a comment."""
    first = next((i for i, line in enumerate(lines) if line.comment is not None), len(lines))
    return list(lines[:first]), list(lines[first:])


def _footer(node: Statement) -> Sequence[cst.EmptyLine]:
    """Blank lines and comments that end a block."""
    body = getattr(node, "body", None)
    return body.footer if isinstance(body, cst.IndentedBlock) else ()


def _joined(first: Sequence[cst.EmptyLine], then: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """The lines above a statement that went, and those above the next; blank lines that meet are not added up."""
    blank, rest = _blank_and_rest(then)
    ends = len(first) - len(list(itertools.dropwhile(lambda line: line.comment is None, reversed(first))))
    return [*first, *blank[ends:], *rest]


def _operand(node: cst.BaseExpression, keep: Operand) -> cst.BaseExpression:
    match node, keep:
        case cst.BinaryOperation(left=kept), Operand.LEFT:
            pass
        case cst.BinaryOperation(right=kept), Operand.RIGHT:
            pass
        case cst.Call(args=[cst.Arg(value=kept), *_]), Operand.ARGUMENT:
            pass
        case cst.Call(func=cst.Attribute(value=kept)), Operand.RECEIVER:
            pass
        case _:
            raise DeclinedError("a division could not be taken apart")
    if node.lpar and not kept.lpar and isinstance(kept, cst.BinaryOperation | cst.UnaryOperation | cst.IfExp):
        kept = kept.with_changes(lpar=node.lpar, rpar=node.rpar)
    return kept


def _with_bare_lines(node: Statement) -> Statement:
    """A statement whose blank lines above hold nothing."""
    lines = [line if line.comment is not None else line.with_changes(indent=False) for line in node.leading_lines]
    return node.with_changes(leading_lines=lines)


def _apart(node: Statement, lines: int) -> Statement:
    """A function with blank lines above it."""
    if not isinstance(node, cst.FunctionDef):
        return node
    return node.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * lines)
