"""The cache on disk: one JSON file for each working directory, in a folder that git and backups pass over.

It is never trusted: what can't be read, or is not from this very gafixer, is no cache, and what can't be written is not
kept. Nobody is told.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gafixer import files, writing
from gafixer.cache import place
from gafixer.cache.answers import OF_TREES, Answer, Answers, Question, signature
from gafixer.cache.forms import finding, form
from gafixer.contents import Contents, Kind, Stamp, kind
from gafixer.scan import NOTHING, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

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
        self._path = folder / f"{place.key()}.json"
        self._settings = settings
        self._scanned = scanned
        self._detail = detail
        self._only_clean = only_clean
        self._stamps: dict[str, Stamp] = {}
        self._passed: dict[str, tuple[int, int]] = {}
        self._looked: dict[str, Kind] = {}
        self._questions: list[Any] = []
        self._kept: dict[str, _Kept] = {}
        self._holds: dict[int, bool] = {}
        self._learned: dict[str, Record] = {}
        self._newly_passed: dict[str, tuple[int, int]] = {}
        with contextlib.suppress(OSError, *_BROKEN):
            self._read()
        self._contents = Contents(self._stamps)

    @functools.cached_property
    def _answers(self) -> Answers:
        from gafixer.analysis.checkout import FileProject

        return Answers(FileProject(self._scanned, self._contents), self._contents, self._settings)

    @functools.cached_property
    def _in_place(self) -> bool:
        """Whether all files that earlier scans looked for are where they were, or missing where they were."""
        return all(kind(path) is found for path, found in self._looked.items())

    def _read(self) -> None:
        if self._path.parent.is_symlink() or self._path.is_symlink() or self._path.stat().st_size > _MOST_BYTES:
            return
        made = json.loads(files.read(str(self._path)))
        stamps = {
            path: Stamp(int(size), int(changed), str(held)) for path, (size, changed, held) in made["files"].items()
        }
        passed = {path: (int(size), int(changed)) for path, (size, changed) in made["passed"].items()}
        looked = {path: Kind(found) for path, found in made["looked"].items()}
        kept = {
            path: _Kept(str(held), str(signed), int(detail), tuple(map(int, asked)), findings)
            for path, (held, signed, detail, asked, findings) in made["outcomes"].items()
        }
        self._stamps, self._passed, self._looked, self._kept = stamps, passed, looked, kept
        self._questions = list(made["questions"])

    def outcome(self, path: str) -> Outcome | None:
        """What the scan of a file would come to, as far as that is known."""
        if path in self._passed:
            return NOTHING if self._passed[path] == _state(path) else None
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
            asked = self._asked(number)
            self._holds[number] = asked is not None and self._has_answer(number, asked)
        return self._holds[number]

    def _has_answer(self, number: int, asked: _Asked) -> bool:
        in_place = self._is_placed(number) and self._in_place
        return self._answers.holds(asked.question, asked.answer, asked.tree, in_place=in_place)

    def _asked(self, number: int) -> _Asked | None:
        """A question of an earlier scan, made of what was read only when it is needed."""
        try:
            asked, parts, whole, tree, _ = self._questions[number]
            answer = Answer(tuple((str(path), str(held)) for path, held in parts), bool(whole))
            return _Asked(tuple(map(str, asked)), answer, str(tree))
        except _BROKEN:
            return None

    def _is_placed(self, number: int) -> bool:
        """Whether all that a question made us look for is among the files of which is known where they are."""
        return self._questions[number][-1] is True

    def learn(self, record: Record) -> None:
        """Take in what the scan of a file came to."""
        self._learned[record.path] = record

    def pass_over(self, paths: Iterable[str]) -> None:
        """Take in that the scan of these files had nothing to look into, whatever else the project holds."""
        states = ((path, _state(path)) for path in paths)
        self._newly_passed |= {
            path: state for path, state in states if state is not None and self._is_settled(state[1])
        }

    def save(self) -> None:
        """Write what is known now, if there is anything new; what else is known of other files stays."""
        moved = bool(self._holds) and not self._in_place
        if not (self._learned or self._newly_passed or moved):
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
        placed = set()
        for path, kept in self._kept.items():
            known = {n: asked for n in kept.asked if self._holds.get(n, True) and (asked := self._again(n)) is not None}
            if path in outcomes or path in self._newly_passed or len(known) < len(set(kept.asked)):
                continue
            placed |= {asked for number, asked in known.items() if self._stays_placed(number)}
            numbered = [numbers.setdefault(asked, len(numbers)) for asked in known.values()]
            outcomes[path] = [kept.digest, kept.signature, kept.detail, numbered, kept.findings]
        looked = self._looks(list(numbers)[:fresh], placed)
        return {
            "outcomes": outcomes,
            "questions": [[a.question, a.answer.parts, a.answer.whole, a.tree, a in placed] for a in numbers],
            "files": self._files(outcomes, list(numbers), fresh),
            "passed": {p: state for p, state in (self._passed | self._newly_passed).items() if p not in outcomes},
            "looked": looked,
        }

    def _stays_placed(self, number: int) -> bool:
        """Whether it is still known where all is that an earlier question made us look for."""
        return (self._is_placed(number) and self._in_place) or self._holds.get(number, False)

    def _looks(self, fresh: Sequence[_Asked], placed: set[_Asked]) -> Mapping[str, Kind]:
        """What is where, of all that `placed` questions made us look for; those of this scan that hold are added.

        Where a file moved during the scan, nothing is in its place.
        """
        placed |= {asked for asked in fresh if self._answers.holds(*asked, in_place=False)}
        before, now = self._looked if self._in_place else {}, self._contents.looked
        if any(before.get(path, found) is not found for path, found in now.items()):
            placed.clear()
            return {}
        return {**before, **now}

    def _now(self, question: Question, answer: Answer) -> _Asked:
        """A question that was asked in this scan."""
        of_tree = question[0] in OF_TREES
        return _Asked(question, answer, self._answers.settled(answer, self._started - _RECENT) if of_tree else "")

    def _again(self, number: int) -> _Asked | None:
        """A question that was asked earlier."""
        asked = self._asked(number)
        if asked is None or not (self._holds.get(number) and asked.question[0] in OF_TREES):
            return asked
        return self._now(asked.question, asked.answer)

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
        state = _state(path)
        return Stamp(*state, content) if state is not None and self._is_settled(state[1]) else None

    def _is_settled(self, time: int) -> bool:
        """Whether a file that changed then can't have changed since without showing it."""
        return time < self._started - _RECENT


def _state(path: str) -> tuple[int, int] | None:
    """Size and time of change of a file."""
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return None
    return state.st_size, state.st_mtime_ns
