"""The project around a file: which of its modules an import means. Third-party packages are never opened."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from gafixer.analysis import outside, registries, requirements, targets
from gafixer.analysis.source import Module, UnreadableError
from gafixer.data.dispatch import CONFIGURATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gafixer.analysis.outside import Setting
    from gafixer.analysis.registries import Told
    from gafixer.analysis.requirements import Requirement
    from gafixer.analysis.targets import Target

__all__ = ["Changed", "FileProject", "MemoryProject", "Project", "shown"]

_MARKERS = ("pyproject.toml", "setup.cfg", "setup.py", ".git", "requirements.txt", ".hg")
#: A module larger than this is data or generated; it is not opened as evidence.
_MOST_BYTES = 2_000_000
_CLASS = re.compile(r"^class[ \t]+(\w+)[ \t]*\(([^)]*)\)", re.MULTILINE)


def derived(source: str) -> Iterator[tuple[str, str]]:
    """Each top-level class of a module with the last name of each of its bases."""
    for match in _CLASS.finditer(source):
        for base in match[2].split(","):
            yield match[1], base.partition("[")[0].rpartition(".")[2].strip()


_Said = TypeVar("_Said")


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

    def subclasses(self, name: str, importer: str) -> tuple[tuple[Module, str], ...]:
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

    def subclasses(self, name: str, importer: str) -> tuple[tuple[Module, str], ...]:
        """See `Project`."""
        found = ((self.module(module, importer), cls) for module, cls in self._derived(name))
        return tuple((module, cls) for module, cls in found if module is not None)

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

    def subclasses(self, name: str, importer: str) -> tuple[tuple[Module, str], ...]:
        """See `Project`."""
        return tuple((self._now(module), cls) for module, cls in self._project.subclasses(name, importer))

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


class FileProject:
    """A project on disk, read lazily and remembered. `scanned` are the files that fixes may change."""

    def __init__(self, scanned: Iterable[str] = ()) -> None:
        self._scanned = scanned
        self._modules: dict[str, Module | None] = {}
        self._imported: dict[tuple[str, str], Module | None] = {}
        self._exists = functools.cache(Path.exists)

    def module(self, name: str, importer: str) -> Module | None:
        """See `Project`. Looks beside the importer, in its package, and in the project's root and `src`."""
        asked = name, importer
        if asked not in self._imported:
            self._imported[asked] = self._find(name, importer)
        return self._imported[asked]

    def _find(self, name: str, importer: str) -> Module | None:
        level = len(name) - len(name.lstrip("."))
        parts = [part for part in name[level:].split(".") if part]
        folder = Path(importer).absolute().parent
        if level:
            for _ in range(level - 1):
                folder = folder.parent
            return self._open(folder, parts)
        if not parts:
            return None
        for root, own in self._roots(folder):
            if own is not None and parts[0] != own:
                continue
            found = self._open(root, parts) or self._installed(root / parts[0], parts)
            if found is not None:
                return found
        return None

    def _installed(self, folder: Path, parts: list[str]) -> Module | None:
        """A module of a project inside the project, which is installed from its own folder of the same name."""
        return self._open(folder, parts) if self._is_root(folder) else None

    def requirement(self, importer: str) -> Requirement | None:
        """See `Project`. The nearest folder that says something, up to the project's root."""
        return self._requirement(Path(importer).absolute().parent)

    def settings(self, importer: str) -> tuple[Setting, ...]:
        """See `Project`. Of the whole project, those nearest to the file: it is often started from another folder."""
        return outside.nearest(self._settings(self._root(Path(importer).absolute().parent)), importer)

    def subclasses(self, name: str, importer: str) -> tuple[tuple[Module, str], ...]:
        """See `Project`. Of the whole project, as far as it is looked into."""
        return self._opened(self._derived(self._root(Path(importer).absolute().parent)).get(name, ()))

    def registered(self, registry: str, importer: str) -> tuple[tuple[Module, Told], ...]:
        """See `Project`. Of the whole project, as far as it is looked into."""
        return self._opened(self._registered(self._root(Path(importer).absolute().parent)).get(registry, ()))

    def targets(self, key: str, importer: str) -> tuple[Target, ...]:
        """See `Project`. Of the whole project, those nearest to the file."""
        found = self._targets(self._root(Path(importer).absolute().parent)).get(key, ())
        return outside.closest(found, importer, lambda target: target.spot.path)

    def _opened(self, said: Iterable[tuple[Path, _Said]]) -> tuple[tuple[Module, _Said], ...]:
        found = []
        for path, what in said:
            key = str(path)
            if key not in self._modules:
                self._modules[key] = self._read(path, path.stem, is_package=path.name == "__init__.py")
            module = self._modules[key]
            if module is not None:
                found.append((module, what))
        return tuple(found)

    def editable(self, path: str) -> Module | None:
        """See `Project`. One that was looked into before, and is no link to elsewhere."""
        whole = Path(path).absolute()
        module = self._modules.get(str(whole))
        return module if whole in self._may_change and not whole.is_symlink() else None

    @functools.cached_property
    def _may_change(self) -> frozenset[Path]:
        return frozenset(Path(path).absolute() for path in self._scanned)

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _derived(self, root: Path) -> dict[str, list[tuple[Path, str]]]:
        """Base class -> the classes of a project that name it, and their files."""
        found: dict[str, list[tuple[Path, str]]] = {}
        for path in outside.files(root, (".py",)):
            for cls, base in derived(outside.text(path)):
                found.setdefault(base, []).append((path, cls))
        return found

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _registered(self, root: Path) -> dict[str, list[tuple[Path, Told]]]:
        return registries.index((path, outside.text(path)) for path in outside.files(root, (".py",)))

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _targets(self, root: Path) -> dict[str, list[Target]]:
        found: dict[str, list[Target]] = {}
        for path in outside.files(root, CONFIGURATIONS):
            for target in targets.read(outside.text(path), shown(path)):
                found.setdefault(target.key, []).append(target)
        return found

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _requirement(self, folder: Path) -> Requirement | None:
        return requirements.requirement(folder, self._root(folder))

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _settings(self, root: Path) -> tuple[Setting, ...]:
        return outside.settings(root)

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _root(self, folder: Path) -> Path:
        """The checkout that a folder is in, else the nearest folder that looks like a project's."""
        around = (folder, *folder.parents)
        checkout = next((f for f in around if self._exists(f / ".git")), None)
        return checkout or next((f for f in around if self._is_root(f)), folder)

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _roots(self, folder: Path) -> tuple[tuple[Path, str | None], ...]:
        """Where to look, and (for a folder that is nobody's project) the one package that may be opened there."""
        folder = folder.absolute()
        roots: list[tuple[Path, str | None]] = [] if self._exists(folder / "__init__.py") else [(folder, None)]
        top = folder
        while self._exists(top / "__init__.py") and top.parent != top:
            top = top.parent
        if top != folder:
            first = folder.relative_to(top).parts[0]
            roots.append((top, None if self._is_root(top) or top.name == "src" else first))
            roots.append((folder, None))
        for parent in (top, *top.parents):
            if self._is_root(parent):
                roots += [(parent, None), (parent / "src", None)]
                break
        return tuple(dict.fromkeys(roots))

    def _is_root(self, folder: Path) -> bool:
        return any(self._exists(folder / marker) for marker in _MARKERS)

    def _open(self, root: Path, parts: list[str]) -> Module | None:
        base = root.joinpath(*parts)
        for path, is_package in ((base / "__init__.py", True), (base.parent / f"{base.name}.py", False)):
            key = str(path)
            if key not in self._modules:
                self._modules[key] = self._read(path, ".".join(parts) or base.name, is_package)
            if self._modules[key] is not None:
                return self._modules[key]
        return None

    def _read(self, path: Path, name: str, is_package: bool) -> Module | None:
        try:
            if not path.is_file() or path.stat().st_size > _MOST_BYTES:
                return None
            return Module.read(name, shown(path), path.read_bytes(), whole=False, is_package=is_package)
        except (OSError, UnreadableError):
            return None  # evidence that can't be read is no evidence; the file's own scan reports it


def shown(path: Path) -> str:
    """The path as findings show it: relative to the working directory where that is inside it."""
    try:
        return path.absolute().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()
