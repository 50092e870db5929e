"""The flake8 plugin: reports what a scan finds, fixes nothing. Off until ``--enable-extensions=GA``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from gafixer import __version__
from gafixer.findings import Detail
from gafixer.scan import Scanner
from gafixer.settings import Hierarchy, SettingsError

if TYPE_CHECKING:
    import argparse
    import ast
    from collections.abc import Iterator, Sequence

__all__ = ["Plugin"]


class Plugin:
    """One file. The settings are gafixer's own; flake8's choose among what is found."""

    name = "gafixer"
    version = __version__
    off_by_default = True

    def __init__(self, tree: ast.AST, filename: str, lines: Sequence[str]) -> None:
        self._path = filename
        # By its mark UTF-8 whatever a comment says: flake8 has decoded the file.
        self._source = b"\xef\xbb\xbf" + "".join(lines).encode(errors="surrogatepass")

    @staticmethod
    def parse_options(options: argparse.Namespace) -> None:
        """Read the settings before the first file.

        Raises:
            ExecutionError: a setting can't be meant.
        """
        from flake8.exceptions import ExecutionError

        try:
            _scanner().settings.of("")
        except SettingsError as error:
            raise ExecutionError(f"gafixer: {error}") from error

    def run(self) -> Iterator[tuple[int, int, str, type[Plugin]]]:
        """Row from 1, column from 0, `GA101 message`, and this class, for each finding in the file.

        Raises:
            RuntimeError: the analysis failed.
        """
        scanner = _scanner()
        outcome = scanner.source(self._source, self._path)
        if outcome.failure is not None:
            raise RuntimeError(outcome.failure.line)
        least = scanner.settings.of(self._path).min_severity.rank
        for finding in outcome.findings:
            if finding.severity.rank >= least and finding.place.filename == self._path:
                start = finding.place.span.start
                yield start.row, start.column - 1, f"{finding.code} {finding.message}", Plugin


@functools.cache
def _scanner() -> Scanner:
    """One for all files of a run, so that a module they share is read once."""
    return Scanner(Hierarchy(), detail=Detail.NOTHING)
