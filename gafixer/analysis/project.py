"""The project around a file, as the analysis asks it: held in memory, or with some of its files changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from gafixer.analysis import registries
from gafixer.analysis.source import Module

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gafixer.analysis.outside import Setting
    from gafixer.analysis.registries import Told
    from gafixer.analysis.requirements import Requirement
    from gafixer.analysis.targets import Target

__all__ = ["Changed", "MemoryProject", "Project", "derived"]

_CLASS = re.compile(r"^class[ \t]+(\w+)[ \t]*\(([^)]*)\)", re.MULTILINE)


def derived(source: str) -> Iterator[tuple[str, str]]:
    """Each top-level class of a module with the last name of each of its bases."""
    for match in _CLASS.finditer(source):
        for base in match[2].split(","):
            yield match[1], base.partition("[")[0].rpartition(".")[2].strip()


class Project(Protocol):
    """Answers what an import in a file of the project means."""

    def module(self, name: str, importer: str) -> Module | None:
        """The module `name` (leading dots for a relative import) as imported by the file `importer`, or None."""
        ...

    def requirement(self, importer: str) -> Requirement | None:
        """What the project says of Transformers, as it holds for the file `importer`, or None."""
        ...

    def settings(self, importer: str) -> tuple[Setting, ...]:
        """Numbers of steps that files around `importer` give."""
        ...

    def subclasses(self, name: str, importer: str) -> Iterator[tuple[Module, str]]:
        """Classes of the project that name a class called `name` as a base: each with the module that defines it."""
        ...

    def registered(self, registry: str, importer: str) -> tuple[tuple[Module, Told], ...]:
        """What registries of this name are told of: each with the module that tells."""
        ...

    def targets(self, key: str, importer: str) -> tuple[Target, ...]:
        """What configuration files around `importer` say is to be made of their part under `key`."""
        ...

    def editable(self, path: str) -> Module | None:
        """The module of a file that a fix of another file may change, too; None for any other file."""
        ...


class MemoryProject:
    """A project held in memory: dotted module name -> source. Fixes may change those that are `editable`, too."""

    def __init__(
        self,
        sources: dict[str, str],
        requirement: Requirement | None = None,
        settings: tuple[Setting, ...] = (),
        editable: Iterable[str] = (),
        targets: tuple[Target, ...] = (),
    ) -> None:
        self._sources = sources
        self._requirement = requirement
        self._settings = settings
        self._targets = targets
        self._editable = {_in_memory(name): name for name in editable}
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str, importer: str) -> Module | None:
        """See `Project`."""
        name = name.lstrip(".")
        if name not in self._modules:
            source = self._sources.get(name)
            self._modules[name] = (
                None if source is None else Module.read(name, _in_memory(name), source.encode(), whole=False)
            )
        return self._modules[name]

    def requirement(self, importer: str) -> Requirement | None:
        """See `Project`."""
        return self._requirement

    def settings(self, importer: str) -> tuple[Setting, ...]:
        """See `Project`."""
        return self._settings

    def subclasses(self, name: str, importer: str) -> Iterator[tuple[Module, str]]:
        """See `Project`."""
        found = ((self.module(module, importer), cls) for module, cls in self._derived(name))
        return ((module, cls) for module, cls in found if module is not None)

    def registered(self, registry: str, importer: str) -> tuple[tuple[Module, Told], ...]:
        """See `Project`."""
        told = registries.index(((module, source) for module, source in self._sources.items()))
        found = ((self.module(module, importer), one) for module, one in told.get(registry, ()))
        return tuple((module, one) for module, one in found if module is not None)

    def targets(self, key: str, importer: str) -> tuple[Target, ...]:
        """See `Project`."""
        return tuple(target for target in self._targets if target.key == key)

    def editable(self, path: str) -> Module | None:
        """See `Project`."""
        return self.module(self._editable[path], path) if path in self._editable else None

    def _derived(self, name: str) -> Iterator[tuple[str, str]]:
        for module, source in self._sources.items():
            for cls, base in derived(source):
                if base == name:
                    yield module, cls


def _in_memory(name: str) -> str:
    return name.replace(".", "/") + ".py"


class Changed:
    """A project in which some files have other text: path -> text."""

    def __init__(self, project: Project, texts: Mapping[str, str]) -> None:
        self._project = project
        self._texts = texts
        self._modules: dict[str, Module] = {}

    def _now(self, module: Module) -> Module:
        if module.path not in self._texts:
            return module
        if module.path not in self._modules:
            self._modules[module.path] = module.changed(self._texts[module.path])
        return self._modules[module.path]

    def module(self, name: str, importer: str) -> Module | None:
        """See `Project`."""
        found = self._project.module(name, importer)
        return None if found is None else self._now(found)

    def requirement(self, importer: str) -> Requirement | None:
        """See `Project`."""
        return self._project.requirement(importer)

    def settings(self, importer: str) -> tuple[Setting, ...]:
        """See `Project`."""
        return self._project.settings(importer)

    def subclasses(self, name: str, importer: str) -> Iterator[tuple[Module, str]]:
        """See `Project`."""
        return ((self._now(module), cls) for module, cls in self._project.subclasses(name, importer))

    def registered(self, registry: str, importer: str) -> tuple[tuple[Module, Told], ...]:
        """See `Project`."""
        return tuple((self._now(module), told) for module, told in self._project.registered(registry, importer))

    def targets(self, key: str, importer: str) -> tuple[Target, ...]:
        """See `Project`."""
        return self._project.targets(key, importer)

    def editable(self, path: str) -> Module | None:
        """See `Project`."""
        found = self._project.editable(path)
        return None if found is None else self._now(found)
