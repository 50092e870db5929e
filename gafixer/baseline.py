"""Findings that are known already: a file of them, kept beside the code, so that only new ones are reported."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gafixer import __version__, files
from gafixer.fingerprint import Key, key
from gafixer.report.names import Names
from gafixer.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gafixer.findings import Finding, Place

__all__ = ["Baseline", "Compared"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Compared:
    """Findings held against a baseline: those that it does not know, how many it knows, what it knows in vain."""

    new: tuple[Finding, ...]
    known: int
    left: Counter[Key]


@dataclass(frozen=True, slots=True)
class Baseline:
    """How often each finding is known, by its key. File names are relative to the folder of `path`."""

    path: Path
    known: Counter[Key]

    @classmethod
    def read(cls, path: str) -> Baseline:
        """Read a file.

        Raises:
            SettingsError: it can't be read, or is no baseline.
        """
        try:
            document = json.loads(files.read(path))
        except FileNotFoundError as error:
            raise SettingsError(f"{path}: no such file; --update-baseline makes it") from error
        except OSError as error:
            raise SettingsError(f"{path}: {files.reason(error)}") from error
        except ValueError as error:
            raise SettingsError(f"{path}: not a baseline: {error}") from error
        return cls(Path(path), _known(document, path))

    @classmethod
    def empty(cls, path: str) -> Baseline:
        """One that knows nothing yet."""
        return cls(Path(path), Counter())

    def key(self, finding: Finding, text: str | None) -> Key:
        """What a finding in a file of this text is known by here."""
        return key(finding, self._relative(finding.place.filename), text)

    def knows(self, finding: Finding, text: str) -> bool:
        """Whether a finding in a file of this text is known, or one just like it."""
        return self.known[self.key(finding, text)] > 0

    def compare(self, findings: Iterable[Finding], source: Callable[[Place], str | None]) -> Compared:
        """Hold findings against it. Of several with one key as many are known as it says, from the top."""
        left = self.known.copy()
        new, number = [], 0
        for finding in findings:
            mine = self.key(finding, source(finding.place))
            if left[mine] > 0:
                left[mine] -= 1
                number += 1
            else:
                new.append(finding)
        return Compared(tuple(new), number, +left)

    def judged(self, scanned: Iterable[str], selected: Callable[[str], frozenset[str]]) -> frozenset[Key]:
        """The keys that a scan of these files says something about: files that are gone, rules that are on."""
        seen = {self._relative(path) for path in scanned}
        folder = self._folder
        return frozenset(
            known
            for known in self.known
            if not Path(folder, known.filename).exists()
            or (known.filename in seen and known.code in selected(str(Path(folder, known.filename))))
        )

    def updated(
        self, findings: Sequence[Finding], source: Callable[[Place], str | None], judged: frozenset[Key]
    ) -> Baseline:
        """What is found now, and what this scan says nothing about."""
        found = Counter(self.key(finding, source(finding.place)) for finding in findings)
        kept = Counter({known: count for known, count in self.known.items() if known not in judged})
        return Baseline(self.path, found | kept)

    def write(self) -> None:
        """Write the file: sorted, an entry in a few lines, so that it merges well.

        Raises:
            OSError: it can't be written.
        """
        entries = [{**known._asdict(), "count": count} for known, count in sorted(self.known.items())]
        document = {"version": _VERSION, "gafixer": __version__, "findings": entries}
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        self.path.write_text(text, encoding="utf-8", newline="\n")

    @property
    def _folder(self) -> str:
        return str(self.path.absolute().parent)

    def _relative(self, path: str) -> str:
        return Names(self._folder).relative(str(Path(path).absolute()))


def _known(document: Any, path: str) -> Counter[Key]:
    try:
        if document["version"] != _VERSION:
            raise SettingsError(f"{path}: a baseline of version {document['version']}, and not {_VERSION}")
        known: Counter[Key] = Counter()
        for entry in document["findings"]:
            words = [entry[field] for field in Key._fields]
            if not all(isinstance(word, str) for word in words) or not isinstance(entry["count"], int):
                raise TypeError
            known[Key(*words)] += entry["count"]
    except (KeyError, TypeError) as error:
        raise SettingsError(f"{path}: not a baseline") from error
    return known
