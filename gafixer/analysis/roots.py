"""Which functions of a module to run: those that train and that no other training function of it calls."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis import calls
from gafixer.analysis.events import Event, EventKind
from gafixer.analysis.interpreter import Interpreter
from gafixer.analysis.values import ClassRef, Func
from gafixer.data.frameworks import FRAMEWORK_CLASSES, IMPLICIT
from gafixer.declared import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Module
    from gafixer.declared import Declared

__all__ = ["Run", "runs"]

_TRAINS = re.compile(rf"\bbackward\b|manual_backward|scaler\(|{IMPLICIT.pattern}")


@dataclass(frozen=True, slots=True)
class Run:
    """What running one root showed."""

    events: tuple[Event, ...]
    interpreter: Interpreter


@dataclass(frozen=True, slots=True)
class _Root:
    """A function, with its class where it is a method; `node` None stands for the module's own statements."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | None
    cls: ast.ClassDef | None = None


def runs(module: Module, project: Project, declared: Declared = NOTHING) -> list[Run]:
    """Run every root of a module; then every function whose backward call no root reached."""
    roots = list(_functions(module))
    calls = _Calls(module)
    training = _training(module, project, roots, calls)
    called = {name for root in training for name in calls.names(root) if root.node is None or name != root.node.name}
    order = [r for r in training if r.node is None or r.node.name not in called]
    made: list[Run] = []
    dull: set[int] = set()
    reached: set[tuple[str, int]] = set()
    for root in order + [r for r in training if r not in order]:
        if root not in order and calls.backward_rows(root) <= {row for path, row in reached if path == module.path}:
            continue
        run = _run(module, project, root, dull, declared)
        made.append(run)
        reached |= {(e.spot.path, e.spot.row) for e in run.events if e.kind is EventKind.BACKWARD}
    return made


def _functions(module: Module) -> Iterator[_Root]:
    yield _Root(None)
    for node in _definitions(module.statements()):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield _Root(node)
            case ast.ClassDef(name=name, body=body) if name not in FRAMEWORK_CLASSES:
                for inner in body:
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                        yield _Root(inner, node)
            case _:
                pass


def _definitions(nodes: list[ast.stmt]) -> Iterator[ast.stmt]:
    stack = nodes[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If | ast.Try):
            stack += node.orelse[::-1] + node.body[::-1]
        else:
            yield node


def _training(module: Module, project: Project, roots: list[_Root], calls: _Calls) -> list[_Root]:
    """The roots whose text goes backward, or calls by name something that does."""
    direct = [r for r in roots if _TRAINS.search(_text(r, module))]
    names = {r.node.name for r in direct if r.node is not None} | set(_imported_training(module, project))
    found = list(direct)
    for _ in range(4):
        more = [r for r in roots if r not in found and names & calls.names(r)]
        if not more:
            break
        found += more
        names |= {r.node.name for r in more if r.node is not None}
    return [r for r in roots if r in found]


def _imported_training(module: Module, project: Project) -> Iterator[str]:
    """Names imported from the project whose definition goes backward."""
    for local, (base, name) in module.imports().items():
        other = project.module(base, module.path)
        if other is None or not _TRAINS.search(other.source):
            continue
        if name is None or local.startswith("*"):
            for block in other.blocks:
                if block.name and _TRAINS.search(block.text):
                    yield block.name
        elif any(b.name == name and _TRAINS.search(b.text) for b in other.blocks):
            yield local


def _text(root: _Root, module: Module) -> str:
    if root.node is not None:
        return _lines(root.node, module)
    return "\n".join(_lines(s, module) for s in module.once(_own_statements))


def _own_statements(module: Module) -> list[ast.stmt]:
    """The module's statements that run when it does, imports and definitions left out."""
    skip = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
    return [
        s
        for s in module.statements()
        if not isinstance(s, skip) and not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
    ]


def _lines(node: ast.stmt, module: Module) -> str:
    return "\n".join(module.line(row) for row in range(node.lineno, (node.end_lineno or node.lineno) + 1))


class _Calls:
    """What the roots of a module call; each is walked through once."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._names: dict[_Root, frozenset[str]] = {}
        self._rows: dict[_Root, frozenset[int]] = {}

    def names(self, root: _Root) -> frozenset[str]:
        """Names that a root calls, those of methods included."""
        if root not in self._names:
            self._walk(root)
        return self._names[root]

    def backward_rows(self, root: _Root) -> frozenset[int]:
        """The lines on which a root goes backward."""
        if root not in self._rows:
            self._walk(root)
        return self._rows[root]

    def _walk(self, root: _Root) -> None:
        nodes = [root.node] if root.node is not None else self._module.once(_own_statements)
        found = [_call(part) for node in nodes for part in ast.walk(node) if isinstance(part, ast.Call)]
        self._names[root] = frozenset(name for name, _, _ in found if name is not None)
        self._rows[root] = frozenset(
            row for name, row, method in found if method and name in {"backward", "manual_backward"}
        )


def _call(node: ast.Call) -> tuple[str | None, int, bool]:
    """The name that is called, the line, and whether it is a method."""
    match node.func:
        case ast.Name(id=name):
            return name, node.lineno, False
        case ast.Attribute(attr=name):
            return name, node.lineno, True
        case _:
            return None, node.lineno, False


def _run(module: Module, project: Project, root: _Root, dull: set[int], declared: Declared) -> Run:
    run = Interpreter(project, module, dull, declared)
    run.scopes.append(run.new_scope(module))
    if root.node is None:
        run.block(module.once(_own_statements))
    else:
        bound = owner = None
        if root.cls is not None:
            owner = ClassRef(module.path, root.cls.name, root.cls)
            bound = calls.instance(run, owner, (), {})
        func = Func(module.path, root.node, id(root.node), owner=owner)
        if bound is not None:
            method = calls.bound_method(run, func, bound)  # type: ignore[arg-type] # a class makes an instance
            func = method if isinstance(method, Func) else func
        run.run_function(func, (), {})
    _run_callbacks(run)
    return Run(tuple(run.events), run)


def _run_callbacks(run: Interpreter) -> None:
    """Functions defined inside the root that go backward and that nobody called: somebody else will."""
    for func in list(run.defined.values()):
        if func.key in run.entered:
            continue
        module = run.names.modules[func.module]
        if isinstance(func.node, ast.FunctionDef) and "backward" in _lines(func.node, module):
            run.run_function(func, (), {})
