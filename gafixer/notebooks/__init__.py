"""Jupyter notebooks: the code cells as one program, and fixes back in the document without touching anything else."""

from __future__ import annotations

from typing import Final

__all__ = ["BOUNDARY"]

#: Stands between two cells of a program. A statement, so that what a fix puts beside the code of a cell stays in it.
BOUNDARY: Final = '"""gafixer cell"""'
