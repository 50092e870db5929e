"""A project on disk: what an import in it means, and what its files say. Third-party packages are never opened."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer.analysis import outside, registries, requirements, targets
from gafixer.analysis.project import derived
from gafixer.analysis.source import Module, UnreadableError
from gafixer.contents import Contents
from gafixer.data.dispatch import CONFIGURATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gafixer.analysis.outside import Setting
    from gafixer.analysis.registries import Told
    from gafixer.analysis.requirements import Requirement
    from gafixer.analysis.targets import Target

__all__ = ["Candidate", "FileProject"]

#: Modules that are kept from one scanned file to the next.
_MOST_MODULES = 128
_MARKERS = ("pyproject.toml", "setup.cfg", "setup.py", ".git", "requirements.txt", ".hg")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that an import may mean, and the module that it would be."""

    path: str
    name: str
    is_package: bool


class FileProject:
    """A project on disk, read lazily and remembered. `scanned` are the files that fixes may change."""

    def __init__(self, scanned: Iterable[str] = (), contents: Contents | None = None) -> None:
        self._scanned = scanned
        self._contents = contents or Contents()
        self._known: dict[str, Candidate | None] = {}
        self._modules: dict[str, Module] = {}
        self._imported: dict[tuple[str, Path], Candidate | None] = {}
        self.folder = functools.cache(_folder)

    def module(self, name: str, importer: str) -> Module | None:
        """See `Project`. Looks beside the importer, in its package, and in the project's root and `src`."""
        asked = name, self.folder(importer)
        if asked not in self._imported:
            found = (candidate for candidate in self.candidates(*asked) if self.load(candidate) is not None)
            self._imported[asked] = next(found, None)
        meant = self._imported[asked]
        return None if meant is None else self.load(meant)

    def candidates(self, name: str, folder: Path) -> Iterator[Candidate]:
        """The files that an import in a folder may mean, in the order in which they are tried."""
        level = len(name) - len(name.lstrip("."))
        parts = tuple(part for part in name[level:].split(".") if part)
        if level:
            for _ in range(level - 1):
                folder = folder.parent
            yield from _files(str(folder), parts)
        elif parts:
            for root in self.holding(parts[0], folder):
                yield from _files(str(root), parts)
                # A project inside the project is installed from its own folder of the same name.
                if self._is_root(root / parts[0]):
                    yield from _files(str(root / parts[0]), parts)

    @functools.lru_cache(maxsize=65536)  # noqa: B019 - a project lives as long as its scan
    def holding(self, head: str, folder: Path) -> tuple[Path, ...]:
        """Where a module or package of the top level is, for imports in a folder; nowhere means that it is no own."""
        return tuple(
            root
            for root, own in self._roots(folder)
            if (own is None or own == head)
            and (
                self._contents.exists(os.path.join(root, head))
                or self._contents.exists(os.path.join(root, f"{head}.py"))
            )
        )

    def load(self, candidate: Candidate) -> Module | None:
        """The module of a file; None where there is no such file, or it is no evidence."""
        path = candidate.path
        known = self._known.get(path, candidate)
        if known is None:
            return None
        # The last one asked for stands last.
        module = self._modules.pop(path, None) or self._read(known)
        if module is not None:
            self._modules[path] = module
        self._known[path] = None if module is None else known
        return module

    def _read(self, candidate: Candidate) -> Module | None:
        try:
            source = self._contents.read(candidate.path)
            if source is None:
                return None
            path = outside.shown(Path(candidate.path))
            return Module.read(candidate.name, path, source, whole=False, is_package=candidate.is_package)
        except (OSError, UnreadableError):
            return None  # evidence that can't be read is no evidence; the file's own scan reports it

    def forget(self) -> None:
        """Let go of modules that were not asked for lately: their syntax trees take most of the memory of a scan.

        Only between files: what is found out in one file tells nodes by their identity.
        """
        for path in list(self._modules)[:-_MOST_MODULES]:
            del self._modules[path]

    def requirement(self, importer: str) -> Requirement | None:
        """See `Project`. The nearest folder that says something, up to the project's root."""
        return self._requirement(self.folder(importer))

    def settings(self, importer: str) -> tuple[Setting, ...]:
        """See `Project`. Of the whole project, those nearest to the file: it is often started from another folder."""
        return outside.nearest(self.all_settings(self.root(self.folder(importer))), importer)

    def subclasses(self, name: str, importer: str) -> Iterator[tuple[Module, str]]:
        """See `Project`. Of the whole project, as far as it is looked into."""
        found = ((self.load(file), cls) for file, cls in self.derived(name, self.root(self.folder(importer))))
        return ((module, cls) for module, cls in found if module is not None)

    def derived(self, name: str, root: Path) -> Sequence[tuple[Candidate, str]]:
        """The classes of a project that name a class called `name` as a base: each with its file."""
        return self._derived(root).get(name, ())

    def registered(self, registry: str, importer: str) -> tuple[tuple[Module, Told], ...]:
        """See `Project`. Of the whole project, as far as it is looked into."""
        found = ((self.load(file), told) for file, told in self.told(registry, self.root(self.folder(importer))))
        return tuple((module, told) for module, told in found if module is not None)

    def told(self, registry: str, root: Path) -> Sequence[tuple[Candidate, Told]]:
        """What registries of this name in a project are told of: each with its file."""
        return self._told(root).get(registry, ())

    def targets(self, key: str, importer: str) -> tuple[Target, ...]:
        """See `Project`. Of the whole project, those nearest to the file."""
        found = self.all_targets(self.root(self.folder(importer))).get(key, ())
        return outside.closest(found, importer, lambda target: target.spot.path)

    def editable(self, path: str) -> Module | None:
        """See `Project`. One that was looked into before, and is no link to elsewhere."""
        known = self._known.get(str(Path(path).absolute())) if self.may_change(path) else None
        return None if known is None else self.load(known)

    def may_change(self, path: str) -> bool:
        """Whether a file is one of those that fixes may change, and is no link to elsewhere."""
        whole = os.path.abspath(path)
        return whole in self._may_change and not os.path.islink(whole)

    @functools.cached_property
    def _may_change(self) -> frozenset[str]:
        return frozenset(map(os.path.abspath, self._scanned))

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def listed(self, root: Path) -> outside.Listing:
        """The files of a project that may say something."""
        return outside.listing(root)

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _derived(self, root: Path) -> dict[str, list[tuple[Candidate, str]]]:
        """Base class -> the classes of a project that name it, and their files."""
        found: dict[str, list[tuple[Candidate, str]]] = {}
        for path in self.listed(root).python:
            for cls, base in derived(outside.text(path)):
                found.setdefault(base, []).append((_candidate(path), cls))
        return found

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _told(self, root: Path) -> dict[str, list[tuple[Candidate, Told]]]:
        """Registry -> what it is told of, and the files that tell."""
        return registries.index((_candidate(path), outside.text(path)) for path in self.listed(root).python)

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def all_targets(self, root: Path) -> dict[str, list[Target]]:
        """Key -> what the configuration files of a project say is to be made of it."""
        found: dict[str, list[Target]] = {}
        for path in self.listed(root).ending(CONFIGURATIONS):
            for target in targets.read(outside.text(path), outside.shown(Path(path))):
                found.setdefault(target.key, []).append(target)
        return found

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _requirement(self, folder: Path) -> Requirement | None:
        return self._required(self.requiring(folder)[-1])

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def requiring(self, folder: Path) -> tuple[Path, ...]:
        """The folders that are asked for a requirement: up to the one that says something, or to the root."""
        around, root = (folder, *folder.parents), self.root(folder)
        last = next(at for at, here in enumerate(around) if here == root or self._required(here) is not None)
        return around[: last + 1]

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _required(self, folder: Path) -> Requirement | None:
        return requirements.requirement(folder)

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def all_settings(self, root: Path) -> tuple[Setting, ...]:
        """Numbers of steps that the files of a project give."""
        return outside.settings(self.listed(root))

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def root(self, folder: Path) -> Path:
        """The checkout that a folder is in, else the nearest folder that looks like a project's."""
        return self._checkout(folder) or self._nearest(folder) or folder

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _checkout(self, folder: Path) -> Path | None:
        if self._contents.exists(os.path.join(folder, ".git")):
            return folder
        return None if folder.parent == folder else self._checkout(folder.parent)

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _nearest(self, folder: Path) -> Path | None:
        if self._is_root(folder):
            return folder
        return None if folder.parent == folder else self._nearest(folder.parent)

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _roots(self, folder: Path) -> tuple[tuple[Path, str | None], ...]:
        """Where to look, and (for a folder that is nobody's project) the one package that may be opened there."""
        is_package = self._is_package(folder)
        roots: list[tuple[Path, str | None]] = [] if is_package else [(folder, None)]
        top = folder
        while self._is_package(top) and top.parent != top:
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

    def _is_package(self, folder: Path) -> bool:
        return self._contents.exists(os.path.join(folder, "__init__.py"))

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - a project lives as long as its scan
    def _is_root(self, folder: Path) -> bool:
        return any(self._contents.exists(os.path.join(folder, marker)) for marker in _MARKERS)


def _folder(path: str) -> Path:
    return Path(path).absolute().parent


def _candidate(path: str) -> Candidate:
    name = os.path.basename(path)
    return Candidate(path, name.removesuffix(".py"), name == "__init__.py")


def _files(root: str, parts: tuple[str, ...]) -> Iterator[Candidate]:
    """The package and the module of this name below a folder."""
    base = os.path.join(root, *parts)
    name = ".".join(parts) or os.path.basename(base)
    yield Candidate(os.path.join(base, "__init__.py"), name, is_package=True)
    yield Candidate(f"{base}.py", name, is_package=False)
