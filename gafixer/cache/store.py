"""The cache on disk: one JSON file for each working directory, in a folder that git and backups pass over.

It is never trusted: what can't be read, or is not from this very gafixer, is no cache, and what can't be written is not
kept. Nobody is told.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gafixer
from gafixer import files, rulebook, writing
from gafixer.cache.answers import OF_TREES, Answer, Answers, Question, signature
from gafixer.cache.forms import finding, form
from gafixer.contents import Contents, Stamp, digest
from gafixer.scan import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gafixer.findings import Detail
    from gafixer.scan import Record
    from gafixer.settings import Hierarchy

__all__ = ["Cache"]

#: A file that changed so many nanoseconds before a scan began may change again and keep its time.
_RECENT = 2_000_000_000
_MOST_BYTES = 400_000_000
#: What reading data of another form than ours raises.
_BROKEN = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, MemoryError)
_TAG = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This folder holds gafixer's cache and may be removed; see https://bford.info/cachedir/\n"
)


class _Asked(NamedTuple):
    """A question and its answer; `tree` is what was listed in the project then, where that is what was asked about."""

    question: Question
    answer: Answer
    tree: str


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a file of this content came to: the numbers of the questions that it asked, and its findings as JSON."""

    digest: str
    signature: str
    detail: int
    asked: tuple[int, ...]
    findings: Any


class Cache:
    """What is known of files, and what is learned in this scan.

    `only_clean`: only that nothing was found in a file counts, as where files are to be changed.
    """

    def __init__(
        self, folder: Path, settings: Hierarchy, scanned: Sequence[str], detail: Detail, *, only_clean: bool = False
    ) -> None:
        self._started = time.time_ns()
        self._path = folder / f"{_key()}.json"
        self._settings = settings
        self._scanned = scanned
        self._detail = detail
        self._only_clean = only_clean
        self._stamps: dict[str, Stamp] = {}
        self._questions: list[_Asked] = []
        self._kept: dict[str, _Kept] = {}
        self._holds: dict[int, bool] = {}
        self._learned: dict[str, Record] = {}
        with contextlib.suppress(OSError, *_BROKEN):
            self._read()
        self._contents = Contents(self._stamps)

    @functools.cached_property
    def _answers(self) -> Answers:
        from gafixer.analysis.checkout import FileProject

        return Answers(FileProject(self._scanned, self._contents), self._contents, self._settings)

    def _read(self) -> None:
        if self._path.parent.is_symlink() or self._path.is_symlink() or self._path.stat().st_size > _MOST_BYTES:
            return
        made = json.loads(files.read(str(self._path)))
        stamps = {
            path: Stamp(int(size), int(changed), str(held)) for path, (size, changed, held) in made["files"].items()
        }
        questions = [
            _Asked(tuple(map(str, asked)), Answer(tuple((str(p), str(d)) for p, d in parts), bool(whole)), str(tree))
            for asked, parts, whole, tree in made["questions"]
        ]
        kept = {
            path: _Kept(str(held), str(signed), int(detail), tuple(map(int, asked)), findings)
            for path, (held, signed, detail, asked, findings) in made["outcomes"].items()
        }
        self._stamps, self._questions, self._kept = stamps, questions, kept

    def outcome(self, path: str) -> Outcome | None:
        """What the scan of a file would come to, as far as that is known."""
        kept = self._kept.get(path)
        if kept is None or not self._is_current(path, kept):
            return None
        try:
            findings = tuple(map(finding, kept.findings))
        except _BROKEN:
            return None
        if findings and (self._only_clean or kept.detail < self._detail):
            return None
        return Outcome(findings)

    def _is_current(self, path: str, kept: _Kept) -> bool:
        return (
            kept.digest == self._contents.of(os.path.abspath(path))
            and kept.signature == signature(self._settings.of(path))
            and all(map(self._is_answered, kept.asked))
        )

    def _is_answered(self, number: int) -> bool:
        """Whether a question has the answer that it had."""
        if number not in self._holds:
            known = 0 <= number < len(self._questions)
            self._holds[number] = known and self._answers.holds(*self._questions[number])
        return self._holds[number]

    def learn(self, record: Record) -> None:
        """Take in what the scan of a file came to."""
        self._learned[record.path] = record

    def save(self) -> None:
        """Write what is known now, if there is anything new; what else is known of other files stays."""
        if not self._learned:
            return
        with contextlib.suppress(OSError, ValueError):
            self._prepare()
            writing.put(self._path, json.dumps(self._document(), separators=(",", ":")).encode())

    def _prepare(self) -> None:
        """Make the folder.

        Raises:
            OSError: it can't be made, or leads elsewhere.
        """
        folder = self._path.parent
        folder.mkdir(parents=True, exist_ok=True)
        if folder.is_symlink():
            raise NotADirectoryError(str(folder))
        for name, text in ((".gitignore", "*\n"), ("CACHEDIR.TAG", _TAG)):
            with contextlib.suppress(FileExistsError), (folder / name).open("x", encoding="utf-8") as handle:
                handle.write(text)

    def _document(self) -> dict[str, Any]:
        numbers: dict[_Asked, int] = {}
        outcomes: dict[str, list[Any]] = {}
        for path, record in self._learned.items():
            numbered = [numbers.setdefault(self._now(*asked), len(numbers)) for asked in record.asked]
            findings = [form(found) for found in record.findings]
            outcomes[path] = [record.digest, record.signature, int(record.detail), numbered, findings]
        fresh = len(numbers)
        for path, kept in self._kept.items():
            if path not in outcomes and all(self._holds.get(number, True) for number in kept.asked):
                asked = [self._again(number) for number in kept.asked if number < len(self._questions)]
                numbered = [numbers.setdefault(question, len(numbers)) for question in asked]
                outcomes[path] = [kept.digest, kept.signature, kept.detail, numbered, kept.findings]
        return {
            "outcomes": outcomes,
            "questions": [[asked, answer.parts, answer.whole, tree] for asked, answer, tree in numbers],
            "files": self._files(outcomes, list(numbers), fresh),
        }

    def _now(self, question: Question, answer: Answer) -> _Asked:
        """A question that was asked in this scan."""
        of_tree = question[0] in OF_TREES
        return _Asked(question, answer, self._answers.settled(answer, self._started - _RECENT) if of_tree else "")

    def _again(self, number: int) -> _Asked:
        """A question that was asked earlier."""
        question, answer, _ = asked = self._questions[number]
        return self._now(question, answer) if self._holds.get(number) and question[0] in OF_TREES else asked

    def _files(self, outcomes: Mapping[str, list[Any]], questions: Sequence[_Asked], fresh: int) -> dict[str, Stamp]:
        """The stamps of files; those that this scan looked into (of `fresh` questions) as they are now."""
        held: dict[str, tuple[str, bool]] = {}
        for number, asked in enumerate(questions):
            for path, content in asked.answer.parts if asked.question[0] == "module" else ():
                held.setdefault(path, (content, number < fresh))
        for path, outcome in outcomes.items():
            held.setdefault(os.path.abspath(path), (outcome[0], path in self._learned))
        made = {}
        for path, (content, is_new) in held.items():
            known = self._stamps.get(path)
            stamp = known if known is not None and known.digest == content else None
            if is_new or self._contents.seen(path) == content:
                stamp = self._stamp(path, content)
            if stamp is not None:
                made[path] = stamp
        return made

    def _stamp(self, path: str, content: str) -> Stamp | None:
        """The stamp of a file that had this content in this scan; None where it may have changed since."""
        try:
            state = os.stat(path)
        except OSError:
            return None
        settled = state.st_mtime_ns < self._started - _RECENT
        return Stamp(state.st_size, state.st_mtime_ns, content) if settled else None


def _key() -> str:
    """A name for this gafixer, this Python and this working directory."""
    from importlib.util import find_spec

    libcst = find_spec("libcst")
    said = (
        gafixer.__version__,
        sys.version,
        str(Path.cwd()),
        _stamps(Path(gafixer.__file__).parent),
        _stamps(rulebook.root()),
        libcst and libcst.origin and os.stat(libcst.origin).st_mtime_ns,
    )
    return digest(repr(said).encode(errors="surrogateescape"))


def _stamps(folder: Path) -> list[tuple[str, int, int]]:
    """Names, sizes and times of all source and data of ours below a folder."""
    found = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in {"__pycache__", "parity", "patch"})
        for name in sorted(names):
            if name.endswith((".py", ".json")):
                state = os.stat(os.path.join(root, name))
                found.append((os.path.join(root, name), state.st_size, state.st_mtime_ns))
    return found
