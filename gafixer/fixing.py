"""Fixes reach files: what is accepted, the patch, and the write that leaves the old file or the new one."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import stat
import tempfile
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gafixer import files
from gafixer.findings import Applicability
from gafixer.scan import Failure, Scanner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gafixer.findings import Edit, Finding
    from gafixer.report.names import Names
    from gafixer.settings import Hierarchy

__all__ = ["Changed", "accepted", "change", "encoded", "patch", "repair", "write"]

_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")


@dataclass(frozen=True, slots=True)
class Changed:
    """A file with its fixes made, in memory: its text before and after, its bytes, what was mended."""

    path: str
    old: str
    new: str
    content: bytes
    fixed: tuple[Finding, ...]


def accepted(finding: Finding, *, unsafe: bool) -> bool:
    """Whether a finding has a fix that may be applied."""
    if finding.fix is None or not finding.fix.edits:
        return False
    return finding.fix.applicability is Applicability.SAFE or (
        unsafe and finding.fix.applicability is Applicability.UNSAFE
    )


def change(source: bytes, path: str, settings: Hierarchy) -> Changed | Failure | None:
    """Fix one file in memory; None where there is nothing to fix."""
    from gafixer.codemod import edits

    unsafe = settings.of(path).unsafe_fixes
    repaired = Scanner(settings).repair(source, path, lambda finding: accepted(finding, unsafe=unsafe))
    if repaired is None or isinstance(repaired, Failure):
        return repaired
    content = encoded(source, edits.between(repaired.old, repaired.new))
    return Changed(path, repaired.old, repaired.new, content, repaired.fixed)


def repair(findings: Iterable[Finding], settings: Hierarchy, *, keep: bool) -> tuple[list[Changed], list[Failure]]:
    """Fix the files that have findings with an accepted fix; `keep` writes them."""
    changed: list[Changed] = []
    failures: list[Failure] = []
    paths = dict.fromkeys(
        f.place.filename for f in findings if accepted(f, unsafe=settings.of(f.place.filename).unsafe_fixes)
    )
    for path in paths:
        try:
            made = change(files.read(path), path, settings)
            if isinstance(made, Changed):
                if keep:
                    write(path, made.content)
                changed.append(made)
            elif made is not None:
                failures.append(made)
        except OSError as error:
            failures.append(Failure(path, f"not fixed: {files.reason(error)}"))
    return changed, failures


def patch(changed: Sequence[Changed], names: Names) -> str:
    """One patch of all files, for `git apply`; paths are relative to the working directory."""
    from gafixer.codemod import edits

    return "".join(edits.unified(c.old, c.new, names.relative(c.path)) for c in changed)


def encoded(source: bytes, made: Iterable[Edit]) -> bytes:
    """A file's bytes with edits of whole lines made: BOM, encoding and the ends of all other lines stay.

    New lines end as most lines of the file do.
    """
    mark = b"\xef\xbb\xbf" if source.startswith(b"\xef\xbb\xbf") else b""
    encoding = tokenize.detect_encoding(io.BytesIO(source).readline)[0].removesuffix("-sig")
    lines = [line for line in _END.split(source[len(mark) :].decode(encoding)) if line]
    ends = Counter(line[len(line.rstrip("\r\n")) :] for line in lines)
    end = max((e for e in ends if e), key=lambda e: ends[e], default="\n")
    for edit in sorted(made, key=lambda e: e.span, reverse=True):
        last = edit.span.end.row - 1 + (edit.span.end.column > 1)
        content = edit.content.replace("\n", end)
        lines[edit.span.start.row - 1 : last] = [content]
    return mark + "".join(lines).encode(encoding)


def write(path: str, content: bytes) -> None:
    """Put new content in a file's place at once; its mode stays, links to it stay links.

    Raises:
        OSError: it is read-only, or can't be written.
    """
    target = os.path.realpath(path)
    if not stat.S_IMODE(Path(target).stat().st_mode) & 0o222 or not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "read-only file")
    descriptor, name = tempfile.mkstemp(prefix=".gafixer-", dir=Path(target).parent)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        shutil.copymode(target, name)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
