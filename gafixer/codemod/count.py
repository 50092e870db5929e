"""Expressions that count items: what of them may be repeated or left out, and how they are written."""

from __future__ import annotations

import ast
import re

from gafixer.codemod.plan import DeclinedError

__all__ = [
    "SAME",
    "atomic",
    "divisor_count",
    "guarded",
    "is_guarded",
    "is_pure",
    "same_count",
    "selected",
    "stripped",
    "told_twice",
    "unparsed",
]

#: Methods after which a tensor has the same items.
SAME = frozenset(
    {"flatten", "view", "reshape", "contiguous", "long", "int", "float", "double", "half", "to", "cuda", "cpu",
     "detach", "type", "squeeze", "unsqueeze", "transpose", "permute", "clone", "type_as", "view_as",
     "reshape_as", "bool"}
)  # fmt: skip
#: Calls that a count may repeat.
_PURE = SAME | {
    "ne",
    "eq",
    "gt",
    "ge",
    "lt",
    "le",
    "sum",
    "numel",
    "size",
    "len",
    "squeeze",
    "clamp",
    "clamp_min",
    "dim",
    "max",
    "min",
}


def is_pure(node: ast.expr) -> bool:
    """Whether evaluating an expression once more costs little and changes nothing."""
    for part in ast.walk(node):
        match part:
            case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
                if name not in _PURE:
                    return False
            case (
                ast.Call()
                | ast.Await()
                | ast.Yield()
                | ast.NamedExpr()
                | ast.Lambda()
                | ast.ListComp()
                | ast.GeneratorExp()
            ):
                return False
            case _:
                pass
    return True


def stripped(node: ast.expr) -> ast.expr:
    """A tensor without the reshaping and casting that leave its items alone.

    Raises:
        DeclinedError: counting it would repeat work.
    """
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[inner, *_]) if name in SAME:
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in SAME:
                node = inner
            case _:
                break
    if not is_pure(node):
        raise DeclinedError("counting the targets would compute them twice")
    return node


def selected(node: ast.expr) -> ast.expr:
    """``x.view(-1)[mask.view(-1)]`` without the flattening of both: as many items are kept."""
    match node:
        case ast.Subscript(value=values, slice=mask) if not isinstance(mask, ast.Slice | ast.Tuple | ast.Constant):
            short, kept = stripped(values), _stripped_mask(mask)
            if short is not values and kept is not None:
                return ast.Subscript(short, kept, node.ctx)
        case _:
            pass
    return node


def _stripped_mask(mask: ast.expr) -> ast.expr | None:
    match mask:
        case ast.Compare(left=left, ops=ops, comparators=[ast.Constant()] as given):
            inner = stripped(left)
            return ast.Compare(inner, ops, given) if inner is not left else None
        case _:
            inner = stripped(mask)
            return inner if inner is not mask else None


def atomic(node: ast.expr) -> str:
    """The code of an expression, in parentheses where a method is called on it."""
    code = unparsed(node)
    return code if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call) else f"({code})"


def unparsed(node: ast.expr) -> str:
    """The code of an expression, with double quotes where that changes nothing."""
    code = ast.unparse(node)
    return code.replace("'", '"') if '"' not in code and "\\" not in code else code


def same_count(one: str, other: str) -> bool:
    """Whether two expressions count the same, in whatever spelling: ``(y != -1).sum()`` and ``y.ne(-1).sum()``."""
    first, second = (_Spelling().visit(ast.parse(code, mode="eval").body) for code in (one, other))
    return ast.dump(first) == ast.dump(second)


class _Spelling(ast.NodeTransformer):
    """Comparisons by method as those by operator, and tensors without the reshaping that leaves their items alone."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Write a method as an operator."""
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr="ne"), args=[label]):
                return ast.Compare(stripped(inner), [ast.NotEq()], [label])
            case _:
                return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Strip what is compared."""
        self.generic_visit(node)
        node.left = stripped(node.left) if is_pure(node.left) else node.left
        return node


#: What is longer and stands twice in a count gets a name.
_LONG = 24


def told_twice(assignment: str, taken: set[str]) -> list[str]:
    """An assignment in which nothing long stands twice: it gets a name in an assignment before."""
    (statement,) = ast.parse(assignment).body
    assert isinstance(statement, ast.Assign)
    codes = [ast.unparse(node) for node in ast.walk(statement.value) if isinstance(node, ast.expr)]
    twice = max((c for c in codes if len(c) > _LONG and codes.count(c) > 1), key=len, default=None)
    name = next((n for n in ("targets", "scored") if n not in taken), None)
    if twice is None or name is None:
        return [assignment]
    whole = unparsed(statement.value).replace(unparsed(ast.parse(twice, mode="eval").body), name)
    return [f"{name} = {unparsed(ast.parse(twice, mode='eval').body)}", f"{unparsed(statement.targets[0])} = {whole}"]


def divisor_count(node: ast.expr) -> ast.expr:
    """The count in a divisor, without what guards it against zero."""
    while True:
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="torch"), attr="clamp" | "maximum" | "max"), args=[inner, *_]
            ):
                node = inner
            case ast.Call(
                func=ast.Attribute(
                    value=inner, attr="clamp" | "clamp_" | "clamp_min" | "clamp_min_" | "maximum" | "item"
                )
            ):
                node = inner
            case (
                ast.Call(func=ast.Name(id="max"), args=[ast.Constant(), inner])
                | ast.Call(func=ast.Name(id="max"), args=[inner, ast.Constant()])
            ):
                node = inner
            case ast.BinOp(left=inner, op=ast.Add(), right=right) if _is_tiny(right):
                node = inner
            case _:
                break
    if not is_pure(node):
        raise DeclinedError("counting the items would compute them twice")
    return node


def _is_tiny(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=float(value)):
            return value < 1e-2
        case _:
            return bool(re.search(r"eps|tiny", ast.unparse(node), re.IGNORECASE))


def guarded(node: ast.expr) -> str:
    """A divisor with a place for its count: ``max({}, 1)`` for ``max(mask.sum(), 1)``."""
    whole, inner = unparsed(node), unparsed(divisor_count(node))
    made = whole.replace("{", "{{").replace("}", "}}").replace(inner, "{}", 1)
    return f"({made})" if isinstance(node, ast.BinOp) else made


def is_guarded(node: ast.expr) -> bool:
    """Whether a divisor can't be zero."""
    return divisor_count(node) is not node
