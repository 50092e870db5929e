"""The fixes as a libcst codemod: ``python -m libcst.tool codemod -x gafixer.codemod.command.FixAccumulation PATH``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from libcst.codemod import CodemodCommand

from gafixer import fixing
from gafixer.scan import Scanner
from gafixer.settings import Hierarchy, Layer

if TYPE_CHECKING:
    import argparse

__all__ = ["FixAccumulation"]


class FixAccumulation(CodemodCommand):
    """Applies the safe fixes of all rules to a file, and with ``--unsafe-fixes`` those that assume something."""

    DESCRIPTION = "Repair gradient accumulation that does not equal one big batch."

    def __init__(self, context: object, unsafe_fixes: bool = False) -> None:
        super().__init__(context)  # type: ignore[arg-type] # libcst hands its own context over
        self._unsafe = unsafe_fixes

    @staticmethod
    def add_args(arg_parser: argparse.ArgumentParser) -> None:
        """The options of the command."""
        arg_parser.add_argument("--unsafe-fixes", action="store_true", help="apply fixes that assume something, too")

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        """Fix one module.

        Raises:
            RuntimeError: the file could not be analysed.
        """
        chosen = Hierarchy(Layer(unsafe_fixes=self._unsafe or None))
        made = fixing.change(tree.bytes, self.context.filename or "-", Scanner(chosen))
        match made:
            case fixing.Changed(content=content):
                return cst.parse_module(content)
            case None:
                return tree
            case failure:
                raise RuntimeError(failure.line)
