"""From a loss in the syntax tree to the expression that counts its items, in words of the function that trains."""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.codemod.plan import DeclinedError
from gafixer.codemod.tree import spelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gafixer.codemod.tree import Function, Tree

__all__ = ["SAME", "Step", "atomic", "bring", "climb", "divisor_count", "labels_count", "stripped"]

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
}


@dataclass(frozen=True, slots=True)
class Step:
    """One call on the way from a loss to the function that runs backward; `foreign`: into another file."""

    function: ast.FunctionDef | ast.AsyncFunctionDef
    call: ast.Call
    foreign: bool = False


def climb(tree: Tree, node: ast.AST, home: Function) -> tuple[tuple[Step, ...], ast.AST]:
    """The calls that lead from a node to a function, innermost first, and the node of that function.

    Raises:
        DeclinedError: it is not the only way.
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
    raise DeclinedError("the way from the loss to backward is not a single chain of calls in this file")


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
    return (
        sum(1 for node in ast.walk(tree.root) if (spelled(node) or "").rpartition(".")[2] == function.name)
        if function
        else 0
    )


def bring(tree: Tree, expression: ast.expr, steps: Sequence[Step]) -> ast.expr:
    """An expression of the innermost function in words of the outermost one.

    Raises:
        DeclinedError: it depends on what only the inner function has.
    """
    made = expression
    for step in steps:
        made = _brought(tree, made, step)
    return made


def _brought(tree: Tree, expression: ast.expr, step: Step) -> ast.expr:
    given = _arguments(step)
    return _Substitute(tree, step, given).visit(copy.deepcopy(expression))  # type: ignore[no-any-return] # NodeTransformer is untyped


class _Substitute(ast.NodeTransformer):
    """Puts what a call gives in the place of parameters, and what names were made of in theirs."""

    def __init__(self, tree: Tree, step: Step, given: dict[str, ast.expr]) -> None:
        self._tree, self._step, self._given = tree, step, given
        self._active: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name that only the inner function knows."""
        assigned = self._tree.assignments(self._step.function, node.id)
        if node.id in self._given and all(_keeps(s, node.id) for s in assigned):
            return copy.deepcopy(self._given[node.id])
        if not assigned and node.id not in self._given:
            known = node.id == "torch" or (not self._step.foreign and self._tree.is_global(node.id))
            if known:
                return node
        given = [_bound_to(s, node.id) for s in assigned]
        values = {ast.dump(value): value for value in given if value is not None}
        if len(values) == 1 and None not in given and node.id not in self._active:
            (value,) = values.values()
            if _is_pure(value):
                self._active.add(node.id)
                made: ast.expr = self.visit(copy.deepcopy(value))
                self._active.discard(node.id)
                return made
        raise DeclinedError(f"`{node.id}` is not known where backward runs")


def _bound_to(statement: ast.stmt, name: str) -> ast.expr | None:
    """What an assignment gives a name, alone or as one of several."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=bound)], value=value) if bound == name:
            return value
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(values):
            return next((v for t, v in zip(targets, values, strict=True) if spelled(t) == name), None)
        case _:
            return None


def _keeps(statement: ast.stmt, name: str) -> bool:
    """Whether an assignment only reshapes what the name was: ``targets = targets.reshape(-1)``."""
    match statement:
        case ast.Assign(targets=[ast.Name()], value=ast.Call(func=ast.Attribute(value=ast.Name(id=same), attr=attr))):
            return same == name and attr in SAME
        case _:
            return False


def _arguments(step: Step) -> dict[str, ast.expr]:
    """Parameter -> what the call gives for it."""
    spec, call = step.function.args, step.call
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    given: dict[str, ast.expr] = dict(zip(names[len(names) - len(spec.defaults) :], spec.defaults, strict=True))
    given |= {a.arg: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None}
    given = {name: default for name, default in given.items() if isinstance(default, ast.Constant | ast.UnaryOp)}
    if names and names[0] == "self":
        names = names[1:]
        if isinstance(call.func, ast.Attribute) and not step.foreign:
            given["self"] = call.func.value
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        raise DeclinedError("the loss gets its arguments by * or **")
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
    if not _is_pure(node):
        raise DeclinedError("counting the targets would compute them twice")
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
    if not _is_pure(node):
        raise DeclinedError("counting the items would compute them twice")
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
_TOKENS = re.compile(
    r"ForMaskedLM|ForTokenClassification|ForConditionalGeneration|ForSeq2SeqLM|ForSpeechSeq2Seq|ModelForSeq2Seq"
)
_SAMPLES = re.compile(r"ForSequenceClassification|ForImageClassification|ForMultipleChoice|ForAudioClassification")


def labels_count(call: ast.Call, modules: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Code that counts the scored labels of a head's call, and what had to be assumed.

    `modules` are the files in sight, the one that trains first.

    Raises:
        DeclinedError: it gets no labels, or several kinds of heads are in sight.
    """
    labels = next((k.value for k in call.keywords if k.arg is not None and _LABELS.search(k.arg)), None)
    if labels is None:
        spread = [k.value for k in call.keywords if k.arg is None]
        if not spread:
            return _targets_count(call, modules)
        if len(spread) != 1 or spelled(spread[0]) is None:
            raise DeclinedError("the head's labels are not in sight")
        code = f'{spelled(spread[0])}["labels"]'
    else:
        code = atomic(stripped(labels))
    kinds = _kinds(modules[:1]) or _kinds(modules)
    match kinds:
        case [only]:
            return code + _COUNTS[only], "that the head's loss is a mean over these"
        case []:
            return code + _COUNTS["shifted"], "that the head shifts its labels, as causal language models do"
        case _:
            raise DeclinedError("heads of several kinds are in sight: it is not clear which labels are scored")


_LABELS = re.compile(r"(^|_)labels$")
_COUNTS = {"shifted": "[..., 1:].ne(-100).sum()", "tokens": ".ne(-100).sum()", "samples": ".size(0)"}


def _kinds(modules: Sequence[tuple[str, str]]) -> list[str]:
    patterns = (("shifted", _SHIFTED), ("tokens", _TOKENS), ("samples", _SAMPLES))
    return [name for name, pattern in patterns if any(pattern.search(text) for _, text in modules)]


_IGNORED = re.compile(r"ignore_index\s*=\s*(-?\d+)")


def _targets_count(call: ast.Call, modules: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The count for a model of the project that takes inputs and targets, and ignores one label."""
    targets = next((k.value for k in call.keywords if k.arg in {"targets", "target"}), None)
    if targets is None and len(call.args) == 2 and not call.keywords:
        targets = call.args[1]
    ignored = {label for _, text in modules for label in _IGNORED.findall(text)}
    if (
        targets is None
        or len(ignored) != 1
        or not any("def forward(" in text and "targets" in text for _, text in modules)
    ):
        raise DeclinedError("the head's labels are not in sight")
    label = ignored.pop()
    return (
        f"{atomic(stripped(targets))}.ne({label}).sum()",
        f"that the model averages over the targets that are not {label}",
    )
