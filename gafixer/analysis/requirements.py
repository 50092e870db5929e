"""Which releases of Transformers a project allows, and where it says so."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer.data.transformers import DIVISIONS, RELEASES, Division
from gafixer.findings import Place, Position, Span

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["NEWEST", "Requirement", "Target", "files", "read", "requirement", "since", "target"]

#: Files that may hold a requirement, the most exact first.
_FILES = re.compile(
    r"(?P<lock>(uv|poetry|pdm|Pipfile|pixi)\.lock)|requirements[\w.-]*\.(txt|in)|environment[\w.-]*\.ya?ml"
    r"|pyproject\.toml|setup\.cfg|setup\.py|Pipfile"
)
#: A lock file larger than this is left alone.
_MOST_BYTES = 4_000_000

_SPECIFIER = r"(?:[<>=!~]=?=?|===)[ \t]*[\w.*+!-]+(?:[ \t]*,[ \t]*(?:[<>=!~]=?=?)[ \t]*[\w.*+!-]+)*"
_WRITTEN = re.compile(
    rf"(?<![\w./-])transformers(?![\w./-])(?:\[[^\]\n]*\])?[ \t]*[(]?[ \t]*(?P<specifier>{_SPECIFIER})?"
)
_TABLE = re.compile(
    r"^[ \t]*[\"']?transformers[\"']?[ \t]*=[ \t]*(?:\{[^}\n]*?version[ \t]*=[ \t]*)?"
    r"[\"'](?P<specifier>[^\"'\n]*)[\"']",
    re.MULTILINE,
)
_LOCKED = re.compile(
    r"name = [\"']transformers[\"']\s+version = [\"'](?P<specifier>[^\"'\n]+)[\"']"
    r"|\"transformers\":\s*\{[^}]*?\"version\":\s*\"(?P<pip>[^\"]+)\""
)
_NO_REQUIREMENTS = frozenset({"name", "keywords", "classifiers", "packages", "description"})
_FROM_SOURCE = re.compile(r"github\.com/huggingface/transformers")


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a project says of Transformers: the specifier ("" for any release), the place, and the text there."""

    specifier: str
    place: Place
    written: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """The releases that are meant: those that the requirement allows, or the newest one.

    `said` is the requirement; it is None where the project has none. `releases` are known releases, oldest first, and
    never empty.
    """

    releases: tuple[str, ...]
    said: Requirement | None = None

    @property
    def newest(self) -> str:
        """The newest release that is meant: findings speak of it."""
        return self.releases[-1]

    @property
    def division(self) -> Division:
        """Who divides in the newest release that is meant."""
        return division(self.newest)

    def divisions(self) -> dict[Division, list[str]]:
        """Who divides in which of the releases."""
        found: dict[Division, list[str]] = {}
        for release in self.releases:
            found.setdefault(division(release), []).append(release)
        return found

    @property
    def name(self) -> str:
        """The newest release, for a message."""
        return f"Transformers {short(self.newest)}"


NEWEST = Target((RELEASES[-1],))


def short(release: str) -> str:
    """A release without its last zero."""
    return release.removesuffix(".0")


def division(release: str) -> Division:
    """Who divides in a release."""
    from packaging.version import Version

    version = Version(release)
    return next(who for first, who in reversed(DIVISIONS) if version >= Version(first))


def since(release: str, first: str) -> bool:
    """Whether a release is `first` or later."""
    from packaging.version import Version

    return Version(release) >= Version(first)


def target(said: Requirement | None, setting: str | None = None) -> Target:
    """The releases that a requirement allows; a setting of the user counts more."""
    if setting is not None:
        return Target(_allowed(setting) or (RELEASES[-1],), said)
    if said is None:
        return NEWEST
    return Target(_allowed(said.specifier) or (RELEASES[-1],), said)


def _allowed(specifier: str) -> tuple[str, ...]:
    """Known releases within a specifier; a single version, even one that isn't known, means itself.

    Empty where nothing is allowed or the specifier can't be read.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    exact = re.fullmatch(r"\s*(?:={2,3}|=)?\s*v?(\d+(?:\.\d+)*(?:\.?(?:dev|rc|post|a|b)\d*)?)\s*", specifier)
    try:
        if exact is not None:
            return (str(Version(exact[1])),)
        inside = SpecifierSet(_caret(specifier))
    except (InvalidSpecifier, InvalidVersion):
        return ()
    return tuple(r for r in RELEASES if inside.contains(r) or inside.contains(_last_patch(r)))


def _last_patch(release: str) -> str:
    """A minor release stands for its patches too: ``>=4.46.1`` allows 4.46."""
    return release.removesuffix(".0") + ".99" if release.endswith(".0") and release != "5.5.0" else release


def _caret(specifier: str) -> str:
    """Poetry's ``^4.30`` and ``*``, and conda's ``=4.30``, as everybody writes them."""
    text = specifier.strip()
    if text in {"*", ""}:
        return ""
    if text.startswith("^"):
        major = text[1:].partition(".")[0]
        return f">={text[1:]},<{int(major) + 1}" if major.isdigit() else text
    return text


def requirement(folder: Path) -> Requirement | None:
    """What the files of a folder require."""
    found = [said for path in files(folder) if (said := _in_file(path)) is not None]
    # An exact version counts before a range, a range before none.
    return min(found, key=lambda r: (not re.match(r"={2,3}|\d", r.specifier), not r.specifier), default=None)


def files(folder: Path) -> list[Path]:
    """The files of a folder that may hold a requirement, the most exact first."""
    try:
        with os.scandir(folder) as listing:
            found = [entry.name for entry in listing if _FILES.fullmatch(entry.name)]
    except OSError:
        return []
    return [folder / name for name in sorted(found, key=lambda name: (not name.endswith(".lock"), name))]


def _in_file(path: Path) -> Requirement | None:
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError:
        return None
    return read(text, path.name, _shown(path))


def read(text: str, name: str, shown: str) -> Requirement | None:
    """The requirement in the text of a file called `name`; `shown` is the path that its place carries."""
    if "transformers" not in text:
        return None
    found = list(_found(text, name))
    if not found:
        return None
    start, end, specifier = next((f for f in found if f[2]), found[0])
    row = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    span = Span(Position(row, column), Position(row, column + end - start))
    return Requirement(re.sub(r"\s", "", specifier), Place(shown, span), text[start:end])


def _found(text: str, name: str) -> Iterator[tuple[int, int, str]]:
    if name.endswith(".lock"):
        for match in _LOCKED.finditer(text):
            version = match["specifier"] or match["pip"]
            start = text.find("transformers", match.start())
            yield start, start + len("transformers"), version if version[:1] in "=<>~!" else f"=={version}"
        return
    if name.endswith(".toml") or name == "Pipfile":
        for match in _TABLE.finditer(text):
            start = match.end() - len(match[0].lstrip())
            yield start, match.end(), match["specifier"]
    for match in _WRITTEN.finditer(text):
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if "#" in line or _FROM_SOURCE.search(line) or not _is_requirement(name, line, text, match.end()):
            continue
        yield match.start(), match.end(), match["specifier"] or ""


def _is_requirement(name: str, before: str, text: str, end: int) -> bool:
    """Whether the word stands where a requirement does: at the start of a line, or alone in a string or a list item."""
    if name.endswith((".py", ".toml")) or name == "Pipfile":
        keys = re.findall(r"^[ \t]*([\w-]+)[ \t]*=", text[:end], re.MULTILINE)
        return before.rstrip(" \t").endswith(("'", '"')) and (not keys or keys[-1] not in _NO_REQUIREMENTS)
    return before.strip(" \t-'\"") == "" and text[end : end + 1] not in {":", "="}


def _shown(path: Path) -> str:
    try:
        return path.absolute().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()
