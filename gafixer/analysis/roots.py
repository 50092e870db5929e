"""Which functions of a module to run: those that train and that no other training function of it calls."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis import calls
from gafixer.analysis.events import Event, EventKind
from gafixer.analysis.interpreter import Interpreter
from gafixer.analysis.names import Names, spelled
from gafixer.analysis.values import ClassRef, Func, Instance
from gafixer.data.frameworks import CALLS_WHAT_IT_IS_GIVEN, FRAMEWORK_CLASSES, IMPLICIT, IMPLICIT_WORDS
from gafixer.declared import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Module
    from gafixer.declared import Declared

__all__ = ["Run", "runs"]

#: A function that is called so, a method, or what is handed on; in prose alone the word says nothing.
_BACKWARD = re.compile(
    r"(?<![.\w])\w*backward\w*\(|(?<=[.\"'])backward\b|manual_backward|\bbackward[ \t]*(?:[,)\]}=]|$)"
)


def _trains(text: str) -> bool:
    """Whether code may go backward, as far as its text tells."""
    return (
        _goes_backward(text)
        or "scaler(" in text
        or (any(word in text for word in IMPLICIT_WORDS) and IMPLICIT.search(text) is not None)
    )


def _goes_backward(text: str) -> bool:
    """Only the lines that hold the word are looked at."""
    at = text.find("backward")
    while at != -1:
        end = text.find("\n", at)
        if _BACKWARD.search(text, text.rfind("\n", 0, at) + 1, len(text) if end == -1 else end) is not None:
            return True
        at = text.find("backward", end) if end != -1 else -1
    return False


#: Nodes that hold no expression.
_LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.unaryop, ast.boolop)


@dataclass(frozen=True, slots=True)
class Run:
    """What running one root showed."""

    events: tuple[Event, ...]
    interpreter: Interpreter


@dataclass(frozen=True, slots=True)
class _Root:
    """A function, with its class where it is a method; `node` None stands for the module's own statements.

    `owner` is the class, of another module, that a method is inherited from.
    """

    node: ast.FunctionDef | ast.AsyncFunctionDef | None
    cls: ast.ClassDef | None = None
    owner: ClassRef | None = None


def runs(module: Module, project: Project, declared: Declared = NOTHING) -> list[Run]:
    """Run every root of a module; then every function whose backward call no root reached."""
    roots = [*_functions(module), *_inherited(module, project)]
    calls = _Calls(module)
    training = _training(module, project, roots, calls)
    order = [r for r in training if not any(calls.runs(other, r) for other in training)]
    made: list[Run] = []
    dull: set[int] = set()
    reached: set[tuple[str, int]] = set()
    for root in order + [r for r in training if r not in order]:
        if root not in order and calls.backward_rows(root) <= {row for path, row in reached if path == module.path}:
            continue
        for run in _ran(module, project, root, dull, declared):
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


def _inherited(module: Module, project: Project) -> Iterator[_Root]:
    """Methods that classes of the module have from other modules of the project, where their own go backward."""
    for node in _definitions(module.statements()):
        if not isinstance(node, ast.ClassDef) or not node.bases or not _trains(_lines(node, module)):
            continue
        names = Names(project, module)
        cls = ClassRef(module.path, node.name, node)
        for parent in names.lineage(cls):
            if isinstance(parent, ClassRef) and parent.module != module.path and parent.name not in FRAMEWORK_CLASSES:
                other = names.modules[parent.module]
                for inner in parent.node.body:
                    if isinstance(inner, ast.FunctionDef) and not _node_trains(inner, other):
                        yield _Root(inner, node, parent)


def _node_trains(node: ast.FunctionDef, module: Module) -> bool:
    """Whether the code of a function, comments left out, may go backward."""
    text = _lines(node, module, decorated=True)
    return any(word in text for word in ("backward", *IMPLICIT_WORDS)) and _trains(ast.dump(node))


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
    direct = [r for r in roots if r.owner is None and _trains(_text(r, module))]
    names = {r.node.name for r in direct if r.node is not None} | set(_imported_training(module, project))
    found = list(direct)
    for _ in range(4):
        more = [r for r in roots if r not in found and calls.may_call(r, names) and names & calls.names(r)]
        if not more:
            break
        found += more
        names |= {r.node.name for r in more if r.node is not None}
    return [r for r in roots if r in found]


def _imported_training(module: Module, project: Project) -> Iterator[str]:
    """Names imported from the project whose definition goes backward."""
    for local, (base, name) in module.imports().items():
        other = project.module(base, module.path)
        if other is None:
            continue
        if name is None or local.startswith("*"):
            yield from other.once(_training_names)
        elif name in other.once(_training_names):
            yield local


def _training_names(module: Module) -> frozenset[str]:
    """What a module defines that goes backward, as far as its text tells."""
    if not _trains(module.source):
        return frozenset()
    return frozenset(block.name for block in module.blocks if block.name and _trains(block.text))


def _text(root: _Root, module: Module) -> str:
    if root.node is not None:
        return _lines(root.node, module)
    return "\n".join(_lines(s, module) for s in module.once(_own_statements))


def _own_statements(module: Module) -> list[ast.stmt]:
    """The module's statements that run when it does.

    Imports and definitions are left out, but for functions that are handed to an object: ``@trainer.on(event)``.
    """
    skip = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
    return [
        s
        for s in module.statements()
        if (not isinstance(s, skip) or _is_handed(s))
        and not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
    ]


def _is_handed(node: ast.stmt) -> bool:
    """Whether a function is defined for an object that may call it: a method of that decorates it."""
    decorators = (getattr(d, "func", d) for d in getattr(node, "decorator_list", ()))
    return isinstance(node, ast.FunctionDef) and any(isinstance(d, ast.Attribute) for d in decorators)


def _lines(node: ast.stmt, module: Module, *, decorated: bool = False) -> str:
    """The text of a statement; of a definition with its decorators, where these are wanted."""
    above = [d.lineno for d in getattr(node, "decorator_list", ())] if decorated else []
    return module.text(min([node.lineno, *above]), node.end_lineno or node.lineno)


class _Calls:
    """What the roots of a module call; each is walked through once."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._names: dict[_Root, frozenset[str]] = {}
        self._rows: dict[_Root, frozenset[int]] = {}
        self._foreign: dict[_Root, frozenset[str]] = {}

    def may_call(self, root: _Root, names: set[str]) -> bool:
        """Whether a root may call one of these, as far as the text of its module tells."""
        if root.owner is not None or root.node is None:
            return True
        text = _lines(root.node, self._module, decorated=True)
        return any(name in text for name in names)

    def names(self, root: _Root) -> frozenset[str]:
        """Names that a root calls, those of methods included."""
        if root not in self._names:
            self._walk(root)
        return self._names[root]

    def runs(self, root: _Root, other: _Root) -> bool:
        """Whether a root may run another one by its name.

        A method that calls ``model.train()`` does not run the `train` of its own class.
        """
        if other.node is None or (root.node is not None and root.node.name == other.node.name):
            return False
        if root.cls is not None and root.cls is other.cls:
            return other.node.name in self.names(root) - self._foreign[root]
        return other.node.name in self.names(root)

    def backward_rows(self, root: _Root) -> frozenset[int]:
        """The lines on which a root goes backward."""
        if root not in self._rows:
            self._walk(root)
        return self._rows[root]

    def _walk(self, root: _Root) -> None:
        nodes = [root.node] if root.node is not None else self._module.once(_own_statements)
        found = _calls_in(nodes)
        given = [argument for call in found if _last(call.func) in CALLS_WHAT_IT_IS_GIVEN for argument in call.args]
        self._names[root] = frozenset(_last(node) for node in (*(call.func for call in found), *given)) - {""}
        other = {id(call) for call in found if isinstance(call.func, ast.Attribute) and not _is_self(call.func.value)}
        self._foreign[root] = frozenset(_last(call.func) for call in found if id(call) in other) - {
            _last(node) for node in (*(call.func for call in found if id(call) not in other), *given)
        }
        self._rows[root] = frozenset(
            call.lineno
            for call in found
            if isinstance(call.func, ast.Attribute) and call.func.attr in {"backward", "manual_backward"}
        )


def _is_self(node: ast.expr) -> bool:
    """Whether a method is called on the object itself, or on its class."""
    match node:
        case ast.Name(id="self" | "cls"):
            return True
        case ast.Call(func=ast.Name(id="super")):
            return True
        case ast.Name(id=name):
            return name[:1].isupper()
        case _:
            return False


def _calls_in(nodes: Iterable[ast.AST]) -> list[ast.Call]:
    """All calls below some nodes, in any order: `ast.walk` without what holds none."""
    found = []
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call):
            found.append(node)
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                stack += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, _LEAVES):
                stack.append(value)
    return found


def _last(node: ast.expr) -> str:
    """The last word of a name, with or without dots."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _ran(module: Module, project: Project, root: _Root, dull: set[int], declared: Declared) -> Iterator[Run]:
    """The run of a root; of a method that leaves something to subclasses one for each of a few of them."""
    if root.cls is None:
        yield _run(module, root, Interpreter(project, module, dull, declared), None)
        return
    own = ClassRef(module.path, root.cls.name, root.cls)
    filled = list(_subclasses(module, project, own)) if _is_abstract(root.cls) else []
    for other, cls in filled or [(module, own)]:
        run = Interpreter(project, module, dull, declared)
        run.names.modules.setdefault(other.path, other)
        yield _run(module, root, run, cls)


#: Subclasses that are tried for one abstract class.
_MOST_SUBCLASSES = 3


def _is_abstract(node: ast.ClassDef) -> bool:
    """Whether a class leaves a method to its subclasses."""
    return any(isinstance(method, ast.FunctionDef) and _is_left(method) for method in node.body)


def _is_left(method: ast.FunctionDef) -> bool:
    match method.body:
        case [*_, ast.Raise(exc=raised)] if raised is not None and "NotImplementedError" in ast.dump(raised):
            return len(method.body) <= 2  # a docstring may stand before it
        case _:
            return any(spelled(decorator).endswith("abstractmethod") for decorator in method.decorator_list)


def _subclasses(module: Module, project: Project, cls: ClassRef) -> Iterator[tuple[Module, ClassRef]]:
    found = 0
    for other, name in project.subclasses(cls.name, module.path):
        other = module if other.path == module.path else other
        names = Names(project, module)
        names.modules.setdefault(other.path, other)
        node = next((n for n in other.defined(name) if isinstance(n, ast.ClassDef)), None)
        if node is None or cls not in names.lineage(made := ClassRef(other.path, name, node)):
            continue
        yield other, made
        found += 1
        if found == _MOST_SUBCLASSES:
            return


def _run(module: Module, root: _Root, run: Interpreter, cls: ClassRef | None) -> Run:
    """Run a root, as a method on a new object of `cls`."""
    run.scopes.append(run.new_scope(module))
    if root.node is None:
        run.block(module.once(_own_statements))
    elif cls is None or root.cls is None:
        run.run_function(Func(module.path, root.node, id(root.node)), (), {})
    else:
        owner = root.owner or ClassRef(module.path, root.cls.name, root.cls)
        made = calls.instance(run, cls, (), {})
        assert isinstance(made, Instance)
        method = calls.bound_method(run, Func(owner.module, root.node, id(root.node), owner=owner), made)
        if isinstance(method, Func):
            run.run_function(method, (), {})
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
