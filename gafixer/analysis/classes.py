"""What a class has by inheritance, remembered: heads ask the same of the same few base classes again and again."""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING, NamedTuple

from gafixer.analysis.values import ClassRef, External, Func

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.names import Names
    from gafixer.analysis.source import Module

__all__ = ["Assignment", "Classes", "may_inherit"]

_HEADER = re.compile(r"^[ \t]*class\s+(\w+)\s*\((.*?)\)\s*:", re.MULTILINE | re.DOTALL)


class Assignment(NamedTuple):
    """A value that a class gives to an attribute of its objects.

    In `__init__` then `self` names the object; otherwise in the class's body. `always`: under no condition.
    """

    owner: ClassRef
    statement: ast.stmt
    value: ast.expr
    self: str | None
    always: bool = True


class Classes:
    """Answers by inheritance over the modules that one run has touched."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._members: dict[ClassRef, _Members] = {}

    def module(self, cls: ClassRef) -> Module:
        """The module that defines a class."""
        return self.names.modules[cls.module]

    def lineage(self, cls: ClassRef) -> tuple[ClassRef | External, ...]:
        """The class and all that it inherits from, nearest first."""
        return self.names.lineage(cls)

    def method(self, cls: ClassRef, name: str, after: ClassRef | None = None) -> Func | None:
        """The method that an object has under this name; `after` a class, as ``super()`` does."""
        seen = after is None
        for parent in self.lineage(cls):
            if not seen:
                seen = parent == after
            elif isinstance(parent, ClassRef) and (node := self._own(parent).methods.get(name)) is not None:
                return Func(parent.module, node, id(node), owner=parent)
        return None

    def fields(self, cls: ClassRef, name: str) -> list[Assignment]:
        """What the nearest class that assigns the name in its body gives it."""
        return next((f for p in self._parents(cls) if (f := self._own(p).fields.get(name))), [])

    def attributes(self, cls: ClassRef, name: str) -> list[Assignment]:
        """What the nearest ``__init__`` that assigns ``self.name`` gives it."""
        return next((f for p in self._parents(cls) if (f := self._own(p).attributes.get(name))), [])

    def settings(self, cls: ClassRef, name: str) -> list[Assignment]:
        """What a class or an object of it has under a name, nearest first, `__init__` before the body."""
        found: list[Assignment] = []
        for parent in self._parents(cls):
            own = self._own(parent)
            found += [*own.attributes.get(name, ()), *own.fields.get(name, ())]
        return found

    def _parents(self, cls: ClassRef) -> Iterator[ClassRef]:
        return (parent for parent in self.lineage(cls) if isinstance(parent, ClassRef))

    def _own(self, cls: ClassRef) -> _Members:
        if cls not in self._members:
            self._members[cls] = _Members(cls)
        return self._members[cls]


class _Members:
    """What one class statement itself defines."""

    def __init__(self, cls: ClassRef) -> None:
        self._cls = cls
        self.methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.fields: dict[str, list[Assignment]] = {}
        for node in cls.node.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.methods.setdefault(node.name, node)
            for name, value in _assigned(node):
                if isinstance(name, ast.Name):
                    self.fields.setdefault(name.id, []).append(Assignment(cls, node, value, None))

    @functools.cached_property
    def attributes(self) -> dict[str, list[Assignment]]:
        """Attribute -> what `__init__` assigns to it."""
        found: dict[str, list[Assignment]] = {}
        init = self.methods.get("__init__")
        if init is None or not init.args.args:
            return found
        own = init.args.args[0].arg
        stack: list[tuple[ast.stmt, bool]] = [(node, True) for node in reversed(init.body)]
        while stack:
            node, always = stack.pop()
            inner = always and isinstance(node, ast.With)
            for part in ("orelse", "body", "finalbody"):
                stack += [(child, inner) for child in reversed(getattr(node, part, ()))]
            for target, value in _assigned(node):
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == own:
                    found.setdefault(target.attr, []).append(Assignment(self._cls, node, value, own, always))
        return found


def _assigned(node: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield target, value
        case ast.AnnAssign(target=target, value=value) if value is not None:
            yield target, value
        case _:
            pass


def may_inherit(module: Module, names: Names, word: str) -> bool:
    """Whether a word stands in a module, or in one that its classes inherit something from, by their texts alone."""
    queue = [(module, name) for name in ("", *module.once(_headers))]
    seen, searched = {(module.path, name) for _, name in queue}, set[str]()
    while queue:
        here, name = queue.pop()
        if here.path not in searched:
            searched.add(here.path)
            if word in here.source:
                return True
        further = [(here, base) for base in here.once(_headers).get(name, ())]
        for other, inner in names.homes(here, name):
            if inner is None:
                return True  # what is made of a module may come from anywhere in it
            further.append((other, inner))
        queue += [(other, base) for other, base in further if (other.path, base) not in seen]
        seen.update((other.path, base) for other, base in further)
    return False


def _headers(module: Module) -> dict[str, set[str]]:
    """Class -> the words in its header that say what it inherits from."""
    found: dict[str, set[str]] = {}
    for name, bases in _HEADER.findall(module.source):
        found.setdefault(name, set()).update(re.findall(r"\w+", bases))
    return found
