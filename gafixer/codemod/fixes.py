"""Fixes for the findings of a file: a plan per window, applied, and offered only where the result was checked."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from gafixer.codemod import edits
from gafixer.codemod.compose import compose, window_key
from gafixer.codemod.helper import NAME, added, present
from gafixer.codemod.plan import Declined, Insert, Plan, merge
from gafixer.codemod.tree import DEEPEST, Tree
from gafixer.findings import Applicability, Fix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gafixer.analysis.site import Site
    from gafixer.findings import Finding, Place

__all__ = ["Fixer", "Key", "Said"]

#: What is said of a site: all of it, and what remains after precedence.
Said: TypeAlias = "tuple[Site, tuple[Finding, ...], tuple[Finding, ...]]"
#: What tells findings of a file apart.
Key: TypeAlias = "tuple[str, Place]"


class Fixer:
    """Makes and checks the fixes of one file. `findings` scans changed source."""

    def __init__(self, source: str, path: str, findings: Callable[[str], Sequence[Finding]]) -> None:
        self._tree = Tree(source, path)
        self._findings = findings

    def fixes(self, said: Iterable[Said], shown: Sequence[Finding]) -> dict[Key, tuple[Fix, Plan | None]]:
        """Code and place of a finding -> its fix, and the plan behind it where there is one to apply."""
        keys = {(f.code, f.place) for f in shown}
        groups: dict[object, list[Said]] = {}
        for entry in said:
            groups.setdefault(window_key(entry[0]), []).append(entry)
        made: dict[Key, tuple[Fix, Plan | None]] = {}
        for group in groups.values():
            remaining = {(f.code, f.place): f for _, _, kept in group for f in kept if (f.code, f.place) in keys}
            if remaining:
                made.update(dict.fromkeys(remaining, self._of_window(group, tuple(remaining.values()), shown)))
        return made

    def together(self, plans: Sequence[Plan], shown: Sequence[Finding]) -> tuple[str, list[Plan]]:
        """The source after all plans that go together, and these; of two that don't, the first."""
        source, taken = self._tree.source, list[Plan]()
        for plan in plans:
            try:
                source = self.apply([*taken, plan])
            except Declined:
                continue
            taken.append(plan)
        return source, taken

    def _of_window(
        self, group: Sequence[Said], remaining: tuple[Finding, ...], shown: Sequence[Finding]
    ) -> tuple[Fix, Plan | None]:
        least = min(f.severity.rank for f in shown)
        try:
            if self._tree.depth > 3 * DEEPEST:
                raise Declined("nesting")
            asked = [(site, [f for f in all_ if f.severity.rank >= least]) for site, all_, _ in group]
            plan = compose(self._tree, asked)
            new = self.apply([plan])
            self._check(new, remaining, shown)
        except Declined as reason:
            return Fix(Applicability.DISPLAY, f"no fix: {reason}"), None
        return Fix(plan.applicability, plan.message, edits.between(self._tree.source, new)), plan

    def apply(self, plans: Sequence[Plan]) -> str:
        """The source after all of these plans.

        Raises:
            Declined: they contradict each other, or a place could not be found.
        """
        from gafixer.codemod.apply import rewrite

        plan = merge(plans)
        top = added(plan.helper, self._tree) if plan.helper is not None else None
        row = self._first_use(plan) if plan.helper is not None else 1
        if plan.helper is not None and present(self._tree) not in {None, plan.helper}:
            raise Declined("the file has another form of the helper")
        return rewrite(self._tree, plan.parts, top.functions if top else (), row, top.imports if top else ())

    def _first_use(self, plan: Plan) -> int:
        """The row of the first function that calls the helper."""
        return min(p.spot.row for p in plan.parts if isinstance(p, Insert) and NAME in p.code)

    def _check(self, new: str, remaining: Sequence[Finding], shown: Sequence[Finding]) -> None:
        """It compiles, what was found is gone, and nothing else came.

        Raises:
            Declined: not so.
        """
        try:
            compile(new, self._tree.path, "exec", flags=ast.PyCF_ONLY_AST, dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise Declined("the result does not compile") from error
        before = Counter(f.code for f in shown)
        after = Counter(f.code for f in self._findings(new))
        expected = before - Counter(f.code for f in remaining)
        if new == self._tree.source:
            raise Declined("nothing changed")
        if more := after - expected:
            raise Declined(f"{', '.join(sorted(more))} would remain or come")
