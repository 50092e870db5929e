"""Fixes for the findings of a file: a plan per window, applied, and offered only where the result was checked."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from gafixer.analysis.source import UnreadableError
from gafixer.codemod import edits, subjects
from gafixer.codemod.compose import SEPARATE
from gafixer.codemod.helper import NAME, Added, added, imported, present
from gafixer.codemod.plan import DeclinedError, Insert, Plan, Replace, Rewrite, merge
from gafixer.codemod.tree import DEEPEST, Tree
from gafixer.findings import Applicability, Detail, Fix
from gafixer.settings import Helpers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gafixer.analysis.requirements import Target
    from gafixer.analysis.site import Site
    from gafixer.codemod.subjects import Subject
    from gafixer.findings import Edit, Finding, Place
    from gafixer.settings import Settings

__all__ = ["Conversion", "Fixer", "Key", "Said", "Texts"]

#: What is said of a subject: all of it, and what remains after precedence.
Said: TypeAlias = "tuple[Subject, tuple[Finding, ...], tuple[Finding, ...]]"
#: What tells findings of a file apart.
Key: TypeAlias = "tuple[str, Place]"
#: Path -> text, of all files that a fix is about: the finding's own first.
Texts: TypeAlias = "Mapping[str, str]"
#: Changed files -> what is said of the own one; the findings that are shown there, and those that others gained.
Scan: TypeAlias = "Callable[[Texts], tuple[Sequence[Said], Sequence[Finding]]]"


@dataclass(frozen=True, slots=True)
class Conversion:
    """A loop that is to become one of another framework: its plan and what that does, or why there is none."""

    site: Site
    plan: Plan | None
    message: str


class Fixer:
    """Makes and checks the fixes of one file: of findings that the settings show. `scan` looks at changed files.

    A fix may reach into the other files that the tree has beside it. It has its edits where `detail` asks for them.
    """

    def __init__(
        self,
        tree: Tree,
        settings: Settings,
        scan: Scan,
        target: Target,
        detail: Detail = Detail.EDITS,
        rounds: int = 2,
    ) -> None:
        self._tree = tree
        self._settings = settings
        self._scan = scan
        self._target = target
        self._detail = detail
        self._rounds = rounds
        self._made: dict[Plan, Texts] = {}
        self._last: tuple[Texts, tuple[Sequence[Said], Sequence[Finding]]] | None = None

    def fixes(self, said: Iterable[Said], shown: Sequence[Finding]) -> dict[Key, tuple[Fix, Plan | None]]:
        """Code and place of a finding -> its fix, and the plan behind it where there is one to apply."""
        keys = {(f.code, f.place) for f in shown}
        groups: dict[object, list[Said]] = {}
        for entry in said:
            groups.setdefault(subjects.key(entry[0]), []).append(entry)
        made: dict[Key, tuple[Fix, Plan | None]] = {}
        for group in groups.values():
            remaining = {(f.code, f.place): f for _, _, kept in group for f in kept if (f.code, f.place) in keys}
            if remaining:
                made.update(self._of_window(group, remaining, shown))
        return made

    def together(self, plans: Sequence[Plan]) -> tuple[Texts, list[Plan]]:
        """The files after all plans that go together, and these; of two that don't, the first."""
        texts: Texts = {self._tree.path: self._tree.source}
        taken = list[Plan]()
        for plan in plans:
            try:
                texts = self.apply([*taken, plan])
            except DeclinedError:
                continue
            taken.append(plan)
        return texts, taken

    def edited(self, made: Sequence[Edit]) -> Texts:
        """The files after the edits of a fix."""
        paths = dict.fromkeys([self._tree.path, *(edit.filename for edit in made if edit.filename is not None)])
        return edits.in_files(self._before(paths), made, self._tree.path)

    def _before(self, paths: Iterable[str]) -> dict[str, str]:
        return {path: self._of(path).source for path in paths}

    def _of(self, path: str) -> Tree:
        """The tree of a file.

        Raises:
            DeclinedError: it is none that may be changed.
        """
        found = self._tree if path == self._tree.path else self._tree.beside(path)
        if found is None:
            raise DeclinedError(f"{path} would be changed too, and is not among the files that are scanned")
        return found

    def conversions(self, sites: Iterable[Site], said: Sequence[Said], shown: Sequence[Finding]) -> list[Conversion]:
        """What comes of turning each site's loop into one of Accelerate: checked as fixes are."""
        from gafixer.codemod.convert import accelerated

        made = []
        for site in sites:
            key = subjects.key(site)
            mine = {(f.code, f.place) for subject, _, kept in said if subjects.key(subject) == key for f in kept}
            others = Counter(f.code for f in shown if (f.code, f.place) not in mine)
            try:
                plan = accelerated(self._tree, site)
                more = self._check(self.apply([plan]), others)
            except DeclinedError as reason:
                made.append(Conversion(site, None, str(reason)))
                continue
            message = f"{', '.join(sorted(more))} would remain or come" if more else plan.message
            made.append(Conversion(site, None if more else plan, message))
        return made

    def _of_window(
        self, group: Sequence[Said], remaining: dict[Key, Finding], shown: Sequence[Finding]
    ) -> dict[Key, tuple[Fix, Plan | None]]:
        """One fix for all findings of a window; where that can't be, one for each kind that stands alone."""
        try:
            whole = self._fix(group, tuple(remaining.values()), shown, None)
            return dict.fromkeys(remaining, whole)
        except DeclinedError as reason:
            prose = Fix(Applicability.DISPLAY, f"not rewritten: {reason}")
        made: dict[Key, tuple[Fix, Plan | None]] = dict.fromkeys(remaining, (prose, None))
        for code in sorted(SEPARATE & {code for code, _ in remaining}):
            mine = {key: f for key, f in remaining.items() if key[0] == code}
            if len(mine) == len(remaining):
                continue
            try:
                made.update(dict.fromkeys(mine, self._fix(group, tuple(mine.values()), shown, code)))
            except DeclinedError:
                continue
        return made

    def _fix(
        self, group: Sequence[Said], remaining: Sequence[Finding], shown: Sequence[Finding], only: str | None
    ) -> tuple[Fix, Plan | None]:
        if self._tree.depth > 3 * DEEPEST:
            raise DeclinedError("nesting")
        asked = [
            (site, [f for f in every if f.severity.rank >= self._settings.min_severity.rank and only in {None, f.code}])
            for site, every, _ in group
        ]
        try:
            spoken = [(site, said) for site, said in asked if said]
            plan = subjects.plan(self._tree, spoken, self._target, self._settings.strategy)
            new = self.apply([plan])
            old = self._before(new)
        except (ValueError, RecursionError) as error:  # numbers and nesting that `ast.unparse` refuses
            raise DeclinedError("its expressions can't be written out again") from error
        expected = Counter(f.code for f in shown) - Counter(f.code for f in remaining)
        more = self._check(new, expected + Counter(plan.left))
        if not more:
            return Fix(plan.applicability, plan.message, self._edits(old, new)), plan
        if self._rounds == 0 or only is not None:
            raise DeclinedError(f"{', '.join(sorted(more))} would remain or come")
        return self._further(plan, new, expected, set(more)), None

    def _further(self, plan: Plan, new: Texts, expected: Counter[str], more: set[str]) -> Fix:
        """What a louder finding hid shows once that is mended: mend it, too."""
        said, shown = self._said(new)
        own = self._tree.path

        def beside(path: str) -> Tree | None:
            return Tree(new[path], path) if path in new else self._tree.beside(path)

        after = Fixer(
            Tree(new[own], own, beside, self._tree.derived),
            self._settings,
            lambda texts: self._scan({**new, **texts}),
            self._target,
            rounds=self._rounds - 1,
        )
        for fix, _ in after.fixes(said, [f for f in shown if f.code in more]).values():
            if fix.edits:
                last = {**new, **after.edited(fix.edits)}
                if self._check(last, expected):
                    break
                worst = max(plan.applicability, fix.applicability, key=list(Applicability).index)
                # No plan leads there at once: who applies this needs its edits.
                made = edits.between_files(self._before(last), last, own)
                return Fix(worst, f"{plan.message}; {fix.message}", made)
        raise DeclinedError(f"{', '.join(sorted(more))} would remain or come")

    def _edits(self, old: Texts, new: Texts) -> tuple[Edit, ...]:
        return edits.between_files(old, new, self._tree.path) if self._detail is Detail.EDITS else ()

    def apply(self, plans: Sequence[Plan]) -> Texts:
        """The files after all of these plans.

        Raises:
            DeclinedError: they contradict each other, or a place could not be found.
        """
        plan = merge(plans)
        if plan not in self._made:
            self._made[plan] = self._rewritten(plan)
        return self._made[plan]

    def _rewritten(self, plan: Plan) -> Texts:
        own = frozenset(part for part in plan.parts if part.spot.path == self._tree.path)
        made = {self._tree.path: self._file(self._tree, replace(plan, parts=own))}
        for path in sorted({part.spot.path for part in plan.parts - own}):
            parts = frozenset(part for part in plan.parts if part.spot.path == path)
            other = replace(plan, parts=parts, functions=(), imports=(), uses=())
            made[path] = self._file(self._of(path), other)
        return made

    def _file(self, tree: Tree, plan: Plan) -> str:
        """A file after its parts, with the helper where they call it."""
        from gafixer.codemod.apply import rewrite

        helper = plan.helper if _calls_helper(plan) else None
        if helper is not None and present(tree) not in {None, helper}:
            raise DeclinedError("the file has another form of the helper")
        if self._settings.helpers is Helpers.IMPORT and not any(isinstance(part, Rewrite) for part in plan.parts):
            parts, line = imported(plan)
            return rewrite(tree, parts, (), 1, (*((line,) if line else ()), *plan.uses))
        top = added(helper, tree) if helper is not None else Added()
        functions = (*top.functions, *(text for text in plan.functions if not tree.has(text)))
        imports = dict.fromkeys((*top.imports, *plan.imports, *plan.uses))
        return rewrite(tree, plan.parts, functions, _first_use(plan), tuple(imports))

    def _check(self, new: Texts, expected: Counter[str]) -> Counter[str]:
        """What is said of it beyond what is expected.

        Raises:
            DeclinedError: it does not compile, or nothing changed.
        """
        if new == self._before(new):
            raise DeclinedError("nothing changed")
        try:
            _, shown = self._said(new)
        except UnreadableError as error:
            raise DeclinedError("the result does not compile") from error
        return Counter(f.code for f in shown) - expected

    def _said(self, texts: Texts) -> tuple[Sequence[Said], Sequence[Finding]]:
        """What is said where these are the files; of the last ones it is remembered."""
        if self._last is None or self._last[0] != texts:
            self._last = texts, self._scan(texts)
        return self._last[1]

    def scanned(self, texts: Texts) -> tuple[Sequence[Said], Sequence[Finding]] | None:
        """What is said of the own file where these are the files, if that was the last to be checked, alone."""
        return self._last[1] if self._last is not None and self._last[0] == texts and len(texts) == 1 else None


def _calls_helper(plan: Plan) -> bool:
    """Whether what a plan writes into a file calls the function that divides."""
    written = [part.code for part in plan.parts if isinstance(part, Insert | Replace | Rewrite)]
    return any(NAME in code for code in (*written, *plan.functions))


def _first_use(plan: Plan) -> int:
    """The row of the first statement that calls what is added at the top level."""
    names = (NAME, *(getattr(ast.parse(text).body[0], "name", NAME) for text in plan.functions))
    uses = [p.spot.row for p in plan.parts if isinstance(p, Insert | Replace) and any(n in p.code for n in names)]
    return min(uses, default=1)
