"""What the scan of a file asked about the files around it, and whether the answers are still the same."""

from __future__ import annotations

import functools
import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from gafixer.contents import Contents, digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gafixer.analysis.checkout import Candidate, FileProject
    from gafixer.analysis.outside import Setting
    from gafixer.analysis.registries import Told
    from gafixer.analysis.requirements import Requirement
    from gafixer.analysis.source import Module
    from gafixer.analysis.targets import Target
    from gafixer.settings import Hierarchy, Settings

__all__ = ["OF_TREES", "Answer", "Answers", "Question", "Recorder", "signature"]

#: What is asked, of which name, in which folder.
Question: TypeAlias = "tuple[str, ...]"
#: The kinds of questions that a whole project answers.
OF_TREES = frozenset({"registered", "settings", "subclasses", "targets"})


class Answer(NamedTuple):
    """Files with their digests, or something else by its digest; `whole`: there are no more than these."""

    parts: tuple[tuple[str, str], ...]
    whole: bool = True


@functools.lru_cache(maxsize=512)
def signature(settings: Settings) -> str:
    """A name for all of a file's settings that its findings depend on."""
    said = (
        sorted(settings.selected),
        settings.min_severity,
        settings.target_transformers,
        settings.helpers,
        settings.strategy,
        settings.unsafe_fixes,
        settings.ignore_comments,
        settings.declared,
    )
    return digest(repr(said).encode(errors="surrogateescape"))


class Recorder:
    """A project that takes down what it is asked; see `Project`."""

    def __init__(self, project: FileProject) -> None:
        self._project = project
        self.asked: dict[Question, None] = {}

    def module(self, name: str, importer: str) -> Module | None:
        """See `Project`. Of what is nowhere in the project only its first name matters."""
        folder = self._project.folder(importer)
        head = name.partition(".")[0]
        known = not head or self._project.holding(head, folder)
        self.asked["module" if known else "nowhere", name if known else head, str(folder)] = None
        return self._project.module(name, importer)

    def requirement(self, importer: str) -> Requirement | None:
        """See `Project`."""
        self.asked["requirement", str(self._project.folder(importer))] = None
        return self._project.requirement(importer)

    def settings(self, importer: str) -> tuple[Setting, ...]:
        """See `Project`."""
        self.asked["settings", str(self._project.folder(importer))] = None
        return self._project.settings(importer)

    def subclasses(self, name: str, importer: str) -> Iterator[tuple[Module, str]]:
        """See `Project`."""
        self.asked["subclasses", name, str(self._project.folder(importer))] = None
        return self._project.subclasses(name, importer)

    def registered(self, registry: str, importer: str) -> tuple[tuple[Module, Told], ...]:
        """See `Project`."""
        self.asked["registered", registry, str(self._project.folder(importer))] = None
        return self._project.registered(registry, importer)

    def targets(self, key: str, importer: str) -> tuple[Target, ...]:
        """See `Project`."""
        self.asked["targets", key, str(self._project.folder(importer))] = None
        return self._project.targets(key, importer)

    def editable(self, path: str) -> Module | None:
        """See `Project`."""
        self.asked["editable", path] = None
        return self._project.editable(path)


class Answers:
    """Answers questions about the files as they are now, each once."""

    def __init__(self, project: FileProject, contents: Contents, settings: Hierarchy) -> None:
        self._project = project
        self._contents = contents
        self._settings = settings
        self._given: dict[Question, Answer] = {}
        self._listed: dict[Path, str] = {}

    def of(self, question: Question) -> Answer:
        """The answer to a question that was asked in this scan."""
        if question not in self._given:
            self._given[question] = self._answer(question)
        return self._given[question]

    def holds(self, question: Question, answer: Answer, tree: str, *, in_place: bool) -> bool:
        """Whether an earlier answer is still right.

        `tree` is what was listed in the project when it was given; `in_place` says that all files which it was looked
        for in are where they were, and no others. Nothing is looked into, as far as possible.
        """
        match question:
            case ("nowhere", *_) if in_place:
                return True
            case ("module", *_) if in_place:
                return all(self._contents.of(path) == held for path, held in answer.parts)
            case ("module", name, folder):
                existing = self._existing(name, Path(folder))
                most = None if answer.whole else len(answer.parts)
                return tuple(part for _, part in itertools.islice(existing, most)) == answer.parts
            case (kind, *_, folder) if kind in OF_TREES and self._is_unchanged(Path(folder), answer, tree):
                return True
            case _:
                return self.of(question) == answer

    def settled(self, answer: Answer, before: int) -> str:
        """What is listed in the project that an answer is about; nothing where some of it changed since a time."""
        root = Path(answer.parts[0][0])
        changed = any(time >= before for _, _, time in self._project.listed(root).files)
        return "" if changed else self._tree(root)

    def _is_unchanged(self, folder: Path, answer: Answer, tree: str) -> bool:
        """Whether a project's list of files is the one that an answer came from."""
        root = self._project.root(folder)
        return answer.parts[:1] == ((str(root), ""),) and self._tree(root) == tree

    def _tree(self, root: Path) -> str:
        """A name for what is listed in a project: paths, sizes and times."""
        if root not in self._listed:
            self._listed[root] = digest(repr(self._project.listed(root).files).encode(errors="surrogateescape"))
        return self._listed[root]

    def _existing(self, name: str, folder: Path) -> Iterator[tuple[Candidate, tuple[str, str]]]:
        """The files that a module may be, with their digests."""
        for candidate in self._project.candidates(name, folder):
            if (held := self._contents.of(candidate.path)) is not None:
                yield candidate, (candidate.path, held)

    def _answer(self, question: Question) -> Answer:
        match question:
            case ("module", name, folder):
                return self._module(name, Path(folder))
            case ("nowhere", head, folder):
                return Answer(tuple((str(root), "") for root in self._project.holding(head, Path(folder))))
            case ("requirement", folder):
                return _said(self._project.requirement(os.path.join(folder, "any.py")))
            case (kind, *name, folder) if kind in OF_TREES:
                root = self._project.root(Path(folder))
                return Answer(((str(root), ""), *self._of_tree(kind, "".join(name), root)))
            case ("editable", path):
                held = self._contents.of(str(Path(path).absolute())) if self._project.may_change(path) else None
                return Answer(() if held is None else ((path, held),))
            case ("selected", path):
                return _said(sorted(self._settings.of(path).selected))
            case _:
                raise ValueError(f"nobody asks {question}")

    def _of_tree(self, kind: str, name: str, root: Path) -> Iterable[tuple[str, str]]:
        """What a whole project says."""
        match kind:
            case "settings":
                return _said(self._project.all_settings(root)).parts
            case "targets":
                return _said(self._project.all_targets(root).get(name, [])).parts
            case "subclasses":
                found: Iterable[tuple[Candidate, object]] = self._project.derived(name, root)
            case _:
                found = self._project.told(name, root)
        return ((file.path, f"{one} {self._contents.of(file.path)}") for file, one in found)

    def _module(self, name: str, folder: Path) -> Answer:
        parts = []
        for candidate, part in self._existing(name, folder):
            parts.append(part)
            if self._project.load(candidate) is not None:
                return Answer(tuple(parts), whole=False)
        return Answer(tuple(parts))


def _said(value: object) -> Answer:
    return Answer((("", digest(repr(value).encode(errors="surrogateescape"))),))
