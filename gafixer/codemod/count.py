"""From a loss in the syntax tree to the expression that counts its items, in words of the function that trains."""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.codemod.plan import Declined
from gafixer.codemod.tree import spelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.codemod.tree import Function, Tree

__all__ = ["Step", "atomic", "bring", "climb", "divisor_count", "labels_count", "stripped"]

#: Methods after which a tensor has the same items.
_SAME = frozenset(
    {"flatten", "view", "reshape", "contiguous", "long", "int", "float", "double", "half", "to", "cuda", "cpu", "detach", "type",
     "squeeze", "unsqueeze", "transpose", "permute", "clone", "type_as", "view_as", "reshape_as", "bool"}
)  # fmt: skip
#: Calls that a count may repeat.
_PURE = _SAME | {"ne", "eq", "gt", "ge", "lt", "le", "sum", "numel", "size", "len", "squeeze", "clamp", "clamp_min", "dim"}


@dataclass(frozen=True, slots=True)
class Step:
    """One call on the way from a loss to the function that runs backward."""

    function: ast.FunctionDef | ast.AsyncFunctionDef
    call: ast.Call


def climb(tree: Tree, node: ast.AST, home: Function) -> tuple[tuple[Step, ...], ast.AST]:
    """The calls that lead from a node to a function, innermost first, and the node of that function.

    Raises:
        Declined: it is not the only way.
    """
    steps: list[Step] = []
    for _ in range(4):
        function = tree.function_of(node)
        if function is home:
            return tuple(steps), node
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            break
        calls = [c for c in _calls_of(tree, function) if not tree.contains(function, c)]
        here = [c for c in calls if tree.function_of(c) is home] or calls
        if len(here) != 1:
            break
        steps.append(Step(function, here[0]))
        node = here[0]
    raise Declined("the way from the loss to backward is not a single chain of calls in this file")


def _calls_of(tree: Tree, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.Call]:
    found = []
    for node in ast.walk(tree.root):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name == function.name:
                found.append(node)
            case ast.Call(func=ast.Attribute(attr=name)) if name == function.name:
                found.append(node)
            case _:
                pass
    return found


def callers(tree: Tree, function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many places of the file mention a function."""
    return sum(1 for node in ast.walk(tree.root) if (spelled(node) or "").rpartition(".")[2] == function.name) if function else 0


def bring(tree: Tree, expression: ast.expr, steps: Sequence[Step]) -> ast.expr:
    """An expression of the innermost function in words of the outermost one.

    Raises:
        Declined: it depends on what only the inner function has.
    """
    made = expression
    for step in steps:
        made = _brought(tree, made, step)
    return made


def _brought(tree: Tree, expression: ast.expr, step: Step) -> ast.expr:
    given = _arguments(step)
    return _Substitute(tree, step.function, given).visit(copy.deepcopy(expression))  # type: ignore[no-any-return] # NodeTransformer is untyped


class _Substitute(ast.NodeTransformer):
    def __init__(self, tree: Tree, function: ast.FunctionDef | ast.AsyncFunctionDef, given: dict[str, ast.expr]) -> None:
        self._tree, self._function, self._given = tree, function, given
        self._active: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.expr:
        assigned = self._tree.assignments(self._function, node.id)
        if node.id in self._given and not assigned:
            return copy.deepcopy(self._given[node.id])
        if not assigned:
            if self._tree.is_global(node.id) or (node.id == "self" and spelled(self._first) == "self"):
                return node
            raise Declined(f"`{node.id}` is not known where backward runs")
        match assigned:
            case [ast.Assign(targets=[ast.Name()], value=value)] if node.id not in self._active and _is_pure(value):
                self._active.add(node.id)
                return self.visit(copy.deepcopy(value))  # type: ignore[no-any-return] # the same
            case _:
                raise Declined(f"`{node.id}` is not known where backward runs")

    @property
    def _first(self) -> ast.expr:
        return self._given.get("self", ast.Name("self", ast.Load()))


def _arguments(step: Step) -> dict[str, ast.expr]:
    """Parameter -> what the call gives for it."""
    spec, call = step.function.args, step.call
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    given: dict[str, ast.expr] = {}
    if names and names[0] == "self":
        names = names[1:]
        if isinstance(call.func, ast.Attribute):
            given["self"] = call.func.value
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        raise Declined("the loss gets its arguments by * or **")
    given |= dict(zip(names, call.args, strict=False))
    given |= {k.arg: k.value for k in call.keywords if k.arg is not None}
    return given


def _is_pure(node: ast.expr) -> bool:
    """Whether evaluating an expression once more costs little and changes nothing."""
    for part in ast.walk(node):
        match part:
            case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
                if name not in _PURE:
                    return False
            case ast.Call() | ast.Await() | ast.Yield() | ast.NamedExpr() | ast.Lambda() | ast.ListComp() | ast.GeneratorExp():
                return False
            case _:
                pass
    return True


def stripped(node: ast.expr) -> ast.expr:
    """A tensor without the reshaping and casting that leave its items alone.

    Raises:
        Declined: counting it would repeat work.
    """
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[inner, *_]) if name in _SAME:
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _SAME:
                node = inner
            case _:
                break
    if not _is_pure(node):
        raise Declined("counting the targets would compute them twice")
    return node


def atomic(node: ast.expr) -> str:
    """The code of an expression, in parentheses where a method is called on it."""
    code = unparsed(node)
    return code if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call) else f"({code})"


def unparsed(node: ast.expr) -> str:
    """The code of an expression, with double quotes where that changes nothing."""
    code = ast.unparse(node)
    return code.replace("'", '"') if '"' not in code and "\\" not in code else code


def divisor_count(node: ast.expr) -> ast.expr:
    """The count in a divisor, without what guards it against zero."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="clamp" | "maximum" | "max"), args=[inner, *_]):
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr="clamp" | "clamp_" | "clamp_min" | "clamp_min_" | "item")):
                node = inner
            case ast.Call(func=ast.Name(id="max"), args=[ast.Constant(), inner]) | ast.Call(
                func=ast.Name(id="max"), args=[inner, ast.Constant()]
            ):
                node = inner
            case ast.BinOp(left=inner, op=ast.Add(), right=right) if _is_tiny(right):
                node = inner
            case _:
                break
    if not _is_pure(node):
        raise Declined("counting the items would compute them twice")
    return node


def _is_tiny(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=float(value)):
            return value < 1e-2
        case _:
            return bool(re.search(r"eps|tiny", ast.unparse(node), re.IGNORECASE))


def is_guarded(node: ast.expr) -> bool:
    """Whether a divisor can't be zero."""
    return divisor_count(node) is not node


_SHIFTED = re.compile(r"ForCausalLM|LMHeadModel|\bCausalLM")
_TOKENS = re.compile(r"ForMaskedLM|ForTokenClassification|ForConditionalGeneration|ForSeq2SeqLM|ForSpeechSeq2Seq|ModelForSeq2Seq")
_SAMPLES = re.compile(r"ForSequenceClassification|ForImageClassification|ForMultipleChoice|ForAudioClassification")


def labels_count(call: ast.Call, source: str) -> tuple[str, str]:
    """Code that counts the scored labels of a head's call, and what had to be assumed (empty: nothing).

    Raises:
        Declined: it gets no labels, or several kinds of heads are in sight.
    """
    labels = next((k.value for k in call.keywords if k.arg in {"labels", "lm_labels", "masked_lm_labels"}), None)
    if labels is None:
        spread = [k.value for k in call.keywords if k.arg is None]
        if len(spread) != 1 or spelled(spread[0]) is None:
            raise Declined("the head's labels are not in sight")
        code = f'{spelled(spread[0])}["labels"]'
    else:
        code = atomic(stripped(labels))
    kinds = [name for name, pattern in (("s", _SHIFTED), ("t", _TOKENS), ("n", _SAMPLES)) if pattern.search(source)]
    match kinds:
        case ["s"]:
            return f"{code}[..., 1:].ne(-100).sum()", ""
        case ["t"]:
            return f"{code}.ne(-100).sum()", ""
        case ["n"]:
            return f"{code}.size(0)", ""
        case []:
            return f"{code}[..., 1:].ne(-100).sum()", "that the head shifts its labels, as causal language models do"
        case _:
            raise Declined("heads of several kinds are in sight: it is not clear which labels are scored")
