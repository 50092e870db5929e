"""What a name means: in its module, through imports, in a class and its bases."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer.analysis import registries
from gafixer.analysis.values import ClassRef, External, Func, ModuleRef, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gafixer.analysis.project import Project
    from gafixer.analysis.registries import Told
    from gafixer.analysis.source import Module
    from gafixer.analysis.targets import Target

__all__ = ["Assigned", "Names", "spelled"]

#: Steps of one chain of imports or bases that are followed.
_LONGEST_CHAIN = 8


@dataclass(frozen=True, slots=True)
class Assigned:
    """An expression that a module assigns to a top-level name, to be evaluated there."""

    module: Module
    node: ast.expr


def spelled(node: ast.expr) -> str:
    """The dotted name at the root of an expression: ``torch.no_grad`` for ``torch.no_grad()``."""
    parts: list[str] = []
    while True:
        match node:
            case ast.Call(func=inner) | ast.Subscript(value=inner):
                node = inner
            case ast.Attribute(value=inner, attr=attr):
                parts.append(attr)
                node = inner
            case ast.Name(id=name):
                return ".".join((name, *reversed(parts)))
            case _:
                return ".".join(reversed(parts))


def _told(module: Module) -> dict[str, list[Told]]:
    """What a module itself tells registries."""
    return {registry: [told for _, told in found] for registry, found in registries.index([(0, module.source)]).items()}


def _within(base: str, name: str) -> str:
    """A module inside a package, which may be written as dots."""
    return f"{base}{name}" if base.endswith(".") else f"{base}.{name}"


class Names:
    """Resolves names over the modules that one run has touched. `modules` maps paths to modules."""

    def __init__(self, project: Project, module: Module) -> None:
        self._project = project
        self.modules: dict[str, Module] = {module.path: module}
        self._found: dict[tuple[str, str], Value | Assigned | None] = {}
        self._own: dict[tuple[str, str], Value | Assigned | None] = {}
        self._lineages: dict[ClassRef, tuple[ClassRef | External, ...]] = {}
        self._methods: dict[tuple[ClassRef, str, ClassRef | None], Func | None] = {}

    def lookup(self, module: Module, name: str, chain: int = 0) -> Value | Assigned | None:
        """A top-level name of a module: a value, what was assigned to it, or None."""
        key = (module.path, name)
        if key not in self._found:
            self._found[key] = None
            self._found[key] = self._lookup(module, name, chain)
        return self._found[key]

    def _lookup(self, module: Module, name: str, chain: int) -> Value | Assigned | None:
        if (own := self._lookup_own(module, name, chain)) is not None or module.imported(name) is not None:
            return own
        for base in module.starred() if chain < _LONGEST_CHAIN else ():
            if (other := self._open(base, module)) is not None:
                found = self.lookup(other, name, chain + 1)
                if found is not None:
                    return found
        return None

    def _lookup_own(self, module: Module, name: str, chain: int) -> Value | Assigned | None:
        """A name that a module defines or imports by this name."""
        key = (module.path, name)
        if key not in self._own:
            self._own[key] = None
            self._own[key] = self._defined(module, name, chain)
        return self._own[key]

    def _defined(self, module: Module, name: str, chain: int) -> Value | Assigned | None:
        for node in reversed(module.defined(name)):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    return Func(module.path, node, id(node))
                case ast.ClassDef():
                    return ClassRef(module.path, node.name, node)
                case ast.Assign(targets=[ast.Name()], value=value):
                    return Assigned(module, value)
                case ast.AnnAssign(value=value) if value is not None:
                    return Assigned(module, value)
                case _:
                    continue
        given = module.imported(name)
        return None if given is None else self._imported(module, *given, chain)

    def _open(self, name: str, importer: Module) -> Module | None:
        found = self._project.module(name, importer.path)
        return None if found is None else self.modules.setdefault(found.path, found)

    def _imported(self, module: Module, base: str, name: str | None, chain: int) -> Value | Assigned | None:
        target = self._open(base, module)
        if name is None:
            return ModuleRef(target.path) if target is not None else External(base)
        looks = target is not None and chain < _LONGEST_CHAIN
        if target is not None and looks and (own := self._lookup_own(target, name, chain + 1)) is not None:
            return own
        # A package's own module of that name comes before all that the package has from modules it imports whole.
        if (inner := self._open(_within(base, name), module)) is not None:
            return ModuleRef(inner.path)
        if target is not None and looks and (found := self.lookup(target, name, chain + 1)) is not None:
            return found
        return External(f"{base}.{name}")

    def homes(self, module: Module, name: str) -> Iterator[tuple[Module, str | None]]:
        """The modules that a name may be imported from, each with its name there; None: it is the module itself."""
        if (given := module.imported(name)) is not None:
            base, inner = given
            target = self._open(base, module)
            if target is not None:
                yield target, inner
            nested = _within(base, inner) if inner is not None and (target is None or target.is_package) else None
            if nested is not None and (within := self._open(nested, module)) is not None:
                yield within, None
        for base in module.starred():
            if (other := self._open(base, module)) is not None:
                yield other, name

    def visible(self, module: Module) -> list[str]:
        """The top-level names of a module: what it defines, imports, and gets from modules that it stars."""
        found = [*module.definitions()]
        for local, (base, _) in module.imports().items():
            if not local.startswith("*"):
                found.append(local)
            elif (other := self._open(base, module)) is not None:
                found += other.definitions()
        return list(dict.fromkeys(found))

    def absolute(self, path: str, module: Module) -> Value | Assigned:
        """What a dotted name means that is written outside the code of `module`'s project."""
        parts = path.split(".")
        for end in range(len(parts) - 1, 0, -1):
            holder = self._open(".".join(parts[:end]), module)
            if holder is None:
                continue
            found = self.lookup(holder, parts[end])
            for attr in parts[end + 1 :]:
                found = None if isinstance(found, Assigned) else self.member(found, attr)
            return found or External(path)
        return External(path)

    def registered(self, registry: str, module: Module) -> list[Value | Assigned]:
        """What the registry that `module` knows by a name is told of, anywhere in the project."""
        home = self._home(module, registry)
        found = []
        elsewhere = self._project.registered(registry, module.path)
        own = ((module, told) for told in module.once(_told).get(registry, ()))
        for other, told in (*own, *(pair for pair in elsewhere if pair[0].path != module.path)):
            teller = self.modules.setdefault(other.path, other)
            value = self.lookup(teller, told.name)
            if value is not None and self._home(teller, told.registrar) in {home, None}:
                found.append(value)
        return found

    def _home(self, module: Module, name: str) -> str | None:
        """Where a name is defined, as seen from a module: the path of a module, or the name of a library."""
        match self.lookup(module, name):
            case Assigned(module=other):
                return other.path
            case ClassRef(module=path) | Func(module=path) | External(path=path) | ModuleRef(name=path):
                return path
            case _:
                return None

    def targets(self, key: str, module: Module) -> tuple[Target, ...]:
        """What configuration says is made of its part under `key`."""
        return self._project.targets(key, module.path)

    # -- classes -------------------------------------------------------------------------------------------------

    def _bases(self, cls: ClassRef) -> list[Value]:
        """What a class inherits from directly: project classes and library names."""
        module = self.modules[cls.module]
        found = []
        for base in cls.node.bases:
            value = self.dotted(module, base)
            if value is not None:
                found.append(value)
        return found

    def dotted(self, module: Module, node: ast.expr) -> Value | None:
        """A name or a chain of attributes on modules, resolved without running anything."""
        match node:
            case ast.Name(id=name):
                found = self.lookup(module, name)
                return None if isinstance(found, Assigned) else found
            case ast.Attribute(value=inner, attr=attr):
                return self.member(self.dotted(module, inner), attr)
            case ast.Subscript(value=inner):
                return self.dotted(module, inner)
            case _:
                return None

    def member(self, value: Value | None, attr: str) -> Value | None:
        """An attribute of a module or of a library."""
        match value:
            case External(path=path):
                return External(f"{path}.{attr}")
            case ModuleRef(name=path):
                module = self.modules[path]
                found = self.lookup(module, attr)
                if found is None and module.is_package and (inner := self._open(f".{attr}", module)) is not None:
                    return ModuleRef(inner.path)
                return None if isinstance(found, Assigned) else found
            case _:
                return None

    def lineage(self, cls: ClassRef) -> tuple[ClassRef | External, ...]:
        """The class and all that it inherits from, nearest first."""
        if cls not in self._lineages:
            self._lineages[cls] = self._lineage(cls)
        return self._lineages[cls]

    def _lineage(self, cls: ClassRef) -> tuple[ClassRef | External, ...]:
        order: list[ClassRef | External] = []
        queue: list[Value] = [cls]
        while queue and len(order) < 24:
            current = queue.pop(0)
            if current in order:
                continue
            match current:
                case ClassRef():
                    order.append(current)
                    queue = self._bases(current) + queue
                case External():
                    order.append(current)
                case _:
                    pass
        return tuple(order)

    def method(self, cls: ClassRef, name: str, after: ClassRef | None = None) -> Func | None:
        """The method that an object of the class has under this name; `after` a class, as ``super()`` does."""
        key = (cls, name, after)
        if key not in self._methods:
            self._methods[key] = self._method(cls, name, after)
        return self._methods[key]

    def _method(self, cls: ClassRef, name: str, after: ClassRef | None) -> Func | None:
        seen = after is None
        for parent in self.lineage(cls):
            if not seen:
                seen = parent == after
                continue
            if isinstance(parent, ClassRef):
                for node in parent.node.body:
                    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                        return Func(parent.module, node, id(node), owner=parent)
        return None

    def field(self, cls: ClassRef, name: str) -> tuple[Module, ast.expr] | None:
        """The expression that a class assigns to a name in its body, and where it stands."""
        for parent in self.lineage(cls):
            if not isinstance(parent, ClassRef):
                continue
            for node in parent.node.body:
                match node:
                    case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                        return self.modules[parent.module], value
                    case ast.AnnAssign(target=ast.Name(id=found), value=value) if found == name and value is not None:
                        return self.modules[parent.module], value
                    case _:
                        continue
        return None
