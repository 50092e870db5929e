"""Adds comments that silence what is found today."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gafixer import files, programs, writing
from gafixer.comments import UNUSED
from gafixer.comments.directives import Kind, directives, statements
from gafixer.scan import Failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gafixer.findings import Finding

__all__ = ["Added", "add", "silenced"]

#: Nothing that a comment could silence: the file is no Python, or the finding is about a comment.
_BEYOND = frozenset({"GA900", UNUSED})


@dataclass(frozen=True, slots=True)
class Added:
    """What came of it: how many findings are silenced now, in which files; those that no comment can silence."""

    silenced: int
    paths: tuple[str, ...]
    beyond: tuple[Finding, ...]
    failures: tuple[Failure, ...]


def add(findings: Iterable[Finding], reason: str) -> Added:
    """Write a comment at each finding, with this reason."""
    by_file: defaultdict[str, list[Finding]] = defaultdict(list)
    beyond: list[Finding] = []
    for finding in findings:
        path = finding.place.filename
        able = finding.code not in _BEYOND and path.endswith((".py", ".ipynb"))
        (by_file[path] if able else beyond).append(finding)
    done, paths, failures = 0, list[str](), list[Failure]()
    for path, found in by_file.items():
        try:
            writing.write(path, _silenced(path, found, reason))
        except (OSError, ValueError) as error:
            why = files.reason(error) if isinstance(error, OSError) else str(error)
            failures.append(Failure(path, f"no comment added: {why}"))
            continue
        done += len(found)
        paths.append(path)
    return Added(done, tuple(paths), tuple(beyond), tuple(failures))


def _silenced(path: str, findings: Sequence[Finding], reason: str) -> bytes:
    from gafixer.analysis.source import UnreadableError, decode

    try:
        file = programs.opened(files.read(path), path)
        old = decode(file.code)
        rows = [file.row(finding.place.cell, finding.place.span.start.row) for finding in findings]
    except UnreadableError as error:
        raise ValueError(error.message) from error
    codes: defaultdict[int, set[str]] = defaultdict(set)
    for row, finding in zip(rows, findings, strict=True):
        codes[row].add(finding.code)
    return file.content(old, silenced(old, codes, reason))


def silenced(text: str, codes: Mapping[int, Iterable[str]], reason: str) -> str:
    """A program with comments that silence these codes, by the row that findings begin in.

    They go to the end of the statement's last line, where nothing but a comment can stand behind them; into a comment
    that is there already where one silences rules.
    """
    lines = text.split("\n")
    spans = [statement.rows for statement in statements(text) if statement.rows is not None]
    wanted: defaultdict[range, set[str]] = defaultdict(set)
    for row, found in codes.items():
        rows = next((rows for rows in spans if row in rows), None)
        if rows is None:
            raise ValueError(f"line {row} belongs to no statement")
        wanted[rows].update(found)
    there = [said for said in directives(text) if said.kind is Kind.IGNORE]
    for rows, found in wanted.items():
        said = next((said for said in there if said.rows == rows), None)
        if said is not None:
            line = lines[said.row - 1]
            bracket = line.rindex("]", said.start, said.end)
            more = sorted(found - set(said.rules))
            lines[said.row - 1] = line[:bracket].rstrip(" ,") + "".join(f", {code}" for code in more) + line[bracket:]
        else:
            comment = f"# gafixer: ignore[{', '.join(sorted(found))}] {reason}".rstrip()
            lines[rows[-1] - 1] = f"{lines[rows[-1] - 1].rstrip()}  {comment}"
    return "\n".join(lines)
