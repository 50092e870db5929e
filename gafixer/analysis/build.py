"""Assembles sites: runs a module's roots, finds each backward call's window, terms and surroundings."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from gafixer.analysis import algebra, evidence, given, ignite, implicit, models, outside, roots, terms, windows
from gafixer.analysis.accelerate import accelerate_steps
from gafixer.analysis.events import AUTOMATIC, Event, EventKind, Framework
from gafixer.analysis.site import Division, Divisor, Evidence, Items, LossTerm, ModelLoss, Scale, Site, Variation
from gafixer.analysis.spelling import text
from gafixer.analysis.values import Atom, Attr, Author, Called, Choice, Const, Factor, Item, Kind, Poly, Sym, Value
from gafixer.analysis.windows import Shape
from gafixer.data.evidence import DROP_LAST, RANKS
from gafixer.declared import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gafixer.analysis.project import Project
    from gafixer.analysis.source import Module
    from gafixer.analysis.spot import Spot
    from gafixer.analysis.windows import Window
    from gafixer.declared import Declared
    from gafixer.findings import Place

__all__ = ["sites"]

#: A name that is assigned what is made of itself, and how many lines above a loss call that is looked for.
_REBINDS = re.compile(r"\s*(\w+)\s*=\s*.*\b\1\b")
_ABOVE = 8
#: Where a project's own tests are: what they call trains elsewhere.
_TESTS = re.compile(r"(^|/)(tests?|testing)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")


def sites(module: Module, project: Project, declared: Declared = NOTHING) -> list[Site]:
    """One site per backward call that a module leads to, each seen from the run that shows most of it.

    A call in another module is that module's, unless this one shows more of it: the framework's steps, or the data.
    """
    modules: dict[str, Module] = {}
    found = _seen(module, project, declared, modules)
    away = {s.backward.spot.path for s in found} - {module.path}
    if not away:
        return found
    if _TESTS.search(module.path):
        return [s for s in found if s.backward.spot.path == module.path]
    others = [modules[path] for path in sorted(away) if path in modules]
    told = {s.backward.spot: s for other in others for s in _seen(other, project, declared, {})}
    return [s for s in found if s.backward.spot not in told or not _as_told(s, told[s.backward.spot])]


def _as_told(site: Site, theirs: Site) -> bool:
    """Whether the module that goes backward shows as much by itself."""
    return (
        site.backward.spot.path != site.path
        and (site.accumulates, site.window.shape) == (theirs.accumulates, theirs.window.shape)
        and _gist(site) == _gist(theirs)
        and max(map(_certainty, site.terms)) <= max(map(_certainty, theirs.terms))
    )


def _gist(site: Site) -> frozenset[tuple[Scale, frozenset[tuple[Divisor, Author]]]]:
    """What is averaged, and what divides it."""
    return frozenset((t.scale, frozenset((d.divisor, d.author) for d in t.divisions)) for t in site.terms)


def _certainty(term: LossTerm) -> int:
    """How sure it is that counts vary, as far as that decides whether something is said."""
    return 2 if term.variation in {Variation.CERTAIN, Variation.PROBABLE} else 1


def _seen(module: Module, project: Project, declared: Declared, modules: dict[str, Module]) -> list[Site]:
    """The sites of a module's runs; the modules that these looked into are added to `modules`."""
    best: dict[tuple[Spot, int], Site] = {}
    for run in [*roots.runs(module, project, declared), *implicit.runs(module, project, declared)]:
        modules |= run.interpreter.names.modules
        maker = _Maker(module, run, project)
        for event in run.events:
            if event.kind is EventKind.BACKWARD and windows.trains(event):
                site = maker.site(event)
                key = (event.spot, 0)
                if key not in best or _rank(site) > _rank(best[key]):
                    best[key] = site
    return sorted(best.values(), key=lambda s: s.backward.spot)


def _rank(site: Site) -> tuple[bool, bool, int, int]:
    """How much a run shows of a site."""
    seen = site.window.shape is not Shape.UNSEEN
    known = sum(term.atom.kind is not Kind.UNKNOWN for term in site.terms)
    return seen, site.accumulates, known, len(site.backward.loops)


class _Maker:
    """Makes the sites of one run."""

    def __init__(self, module: Module, run: roots.Run, project: Project) -> None:
        self._module = module
        self._project = project
        self._declared = run.interpreter.declared
        self._modules = run.interpreter.names.modules
        self._events = run.events
        # The scanned module first: what it says itself counts before what it imports.
        others = [m for m in self._modules.values() if m is not module]
        self._around = evidence.Surroundings([module, *others])

    def site(self, backward: Event) -> Site:
        window = dataclasses.replace(windows.find(backward, list(self._events)), declared=self._declared)
        framework = backward.framework
        told = self._framework_steps(backward, window)
        framework_steps = told.value if told is not None else None
        found, *others = self._terms(backward, window, framework_steps)
        steps = window.steps if window.steps is not None else framework_steps
        written = None if steps is None else given.written(re.split(r"\W+", text(steps))[-1], self._settings)
        where = told.where if told is not None and told.where is not None else written.where if written else None
        return Site(
            backward=backward,
            window=window,
            framework=framework,
            terms=found,
            events=self._events,
            path=self._module.path,
            place=self._place,
            source=self._text,
            reported=lambda event: self._reported(event, window),
            steps=steps,
            steps_default=_default(steps, written),
            steps_given=where,
            accumulates=self._accumulates(window, steps, framework_steps) and not self._is_probe(backward, window),
            by_epoch=window.loop is not None and window.loop.trips is None,
            ranks=self._search(_ranks),
            drop_last=self._search(_drops_last),
            modules=tuple((module.path, module.source) for module in self._around.modules),
            others=tuple(others),
            models=lambda term, away: self._models(term, away, backward, window),
        )

    @property
    def _settings(self) -> tuple[outside.Setting, ...]:
        return self._project.settings(self._module.path)

    def _place(self, spot: Spot) -> Place:
        module = self._modules.get(spot.path, self._module if spot.path == self._module.path else None)
        return outside.place(spot) if module is None else module.place(spot)

    def _search(self, look: Callable[[Module], Evidence | None]) -> Evidence | None:
        return next((found for m in self._around.modules if (found := m.once(look)) is not None), None)

    def _reported(self, event: Event, window: Window) -> tuple[LossTerm, ...]:
        parts = terms.losses(event.value or Const(None), event.spot)[0]
        return tuple(
            LossTerm(
                atom, Scale.UNKNOWN, Items.UNKNOWN, Variation.UNKNOWN, terms.divisions(factors, window), (), number
            )
            for atom, factors, number in parts
        )

    def _models(self, term: LossTerm, away: int, backward: Event, window: Window) -> Iterator[ModelLoss]:
        modules = self._around.modules
        for module in modules[1:] if away else modules[:1]:
            for model in models.behind(term.atom, module, self._project):
                for path, other in model.modules.items():
                    self._modules.setdefault(path, other)
                (parts, *_) = terms.losses(model.loss, term.atom.spot)
                made = tuple(self._term(part, backward, window, None) for part in parts)
                files = tuple((path, other.source) for path, other in model.modules.items())
                yield ModelLoss(model.cls.name, made, files)

    # -- what backward goes through --------------------------------------------------------------------------------

    def _framework_steps(self, backward: Event, window: Window) -> given.Given | None:
        """What the framework's backward divides by; None where it doesn't."""
        if backward.undivided:
            return None
        match backward.framework:
            case Framework.ACCELERATE:
                seen = accelerate_steps(backward.subject, self._around.modules)
                found = given.accelerate(seen, self._settings)
                if seen is None and found is None and window.shape is Shape.FRAMEWORK:
                    return given.Given(Sym("gradient_accumulation_steps"))
                return found
            case Framework.DEEPSPEED if self._is_engine(backward):
                return given.deepspeed(self._around.modules, self._settings)
            case Framework.IGNITE:
                steps = ignite.given(backward.subject)
                return None if steps is None or steps == Const(1) else given.Given(steps)
            case Framework.COMPOSER:
                return given.composer(self._around.modules, self._settings)
            case Framework.TRAINER if backward.subject is not None:
                return given.Given(Sym("gradient_accumulation_steps"))
            case Framework.LIGHTNING if backward.subject == AUTOMATIC:
                told = given.lightning(self._around.modules, self._settings)
                return None if told is None or told.value == Const(1) else told
            case _:
                return None

    def _is_engine(self, backward: Event) -> bool:
        """Whether what goes backward is DeepSpeed's: by its name, or because somebody speaks of DeepSpeed."""
        named = re.search(r"engine|deepspeed", text(backward.subject), re.IGNORECASE) is not None
        return named or any(module.once(_speaks_of_deepspeed) for module in self._around.modules)

    def _is_probe(self, backward: Event, window: Window) -> bool:
        """Whether the gradients are looked at and cleared again, under a condition that the step does not have."""
        step = window.step
        if step is None:
            return False
        own = backward.branches - step.branches
        return bool(own) and any(
            e.kind is EventKind.CLEAR and backward.order < e.order and own <= e.branches and e.loops == backward.loops
            for e in self._events
        )

    def _accumulates(self, window: Window, steps: Value | None, framework_steps: Value | None) -> bool:
        if steps == Const(1):
            return False
        match window.shape:
            case Shape.SINGLE:
                return False
            case Shape.NESTED:
                return window.loop is not None
            case Shape.FRAMEWORK:
                told = framework_steps is not None or window.guard is not None
                return told or window.backward.framework is Framework.TRAINER
            case _:
                return True

    # -- terms ---------------------------------------------------------------------------------------------------

    def _terms(self, backward: Event, window: Window, framework_steps: Value | None) -> list[tuple[LossTerm, ...]]:
        """The terms of the loss: of the values that it may have, the one best known; then those of other losses.

        Where the alternatives disagree about whether counts vary, the least that they agree on holds.
        """
        options = terms.losses(backward.value or Const(None), backward.spot)
        made = [tuple(self._term(part, backward, window, framework_steps) for part in option) for option in options]
        best = max(made, key=_known)
        rivals = [o for o in made if _known(o)[0] == _known(best)[0]]
        agreed = min((_most(o) for o in rivals), key=_ORDER.index)
        told = tuple(dataclasses.replace(t, variation=min(t.variation, agreed, key=_ORDER.index)) for t in best)
        seen, others = {_spots(best)}, []
        for option in made:
            if _spots(option) not in seen and any(t.atom.spot != backward.spot for t in option):
                seen.add(_spots(option))
                others.append(option)
        return [told, *others]

    def _term(
        self,
        part: tuple[Atom, tuple[Factor, ...], float],
        backward: Event,
        window: Window,
        framework_steps: Value | None,
    ) -> LossTerm:
        atom, factors, coefficient = part
        found = list(terms.divisions(factors, window))
        if framework_steps is not None:
            found.append(Division(Divisor.STEPS, framework_steps, -1, backward.spot, Author.FRAMEWORK))
        found += self._rescales(backward, window)
        scale = terms.scale(atom, tuple(found))
        counts = any(d.divisor is Divisor.LOCAL_ITEMS and d.power < 0 for d in found)
        items, variation, said = evidence.judge(
            atom, self._shapes(atom.spot), self._around, counts and _is_masked(atom, found)
        )
        if scale is Scale.UNKNOWN and atom.kind is Kind.REDUCED:
            scale = Scale.SUM
        if atom.made is not None and atom.made.path not in self._modules:
            said = (Evidence(atom.made, "the configuration says here what the loss is"), *said)
        return LossTerm(atom, scale, items, variation, tuple(found), said, coefficient)

    def _text(self, spot: Spot) -> str:
        module = self._modules.get(spot.path)
        if module is None:
            return ""
        return "\n".join(module.line(row) for row in range(spot.row, spot.end_row + 1))

    def _shapes(self, spot: Spot) -> str:
        """The text of a loss call, and of the assignments just above that reshape what it is given."""
        call = self._text(spot)
        module = self._modules.get(spot.path)
        if module is None:
            return call
        names = set(re.findall(r"[A-Za-z_]\w*", call))
        above = (module.line(row) for row in range(max(1, spot.row - _ABOVE), spot.row))
        return "\n".join([*(line for line in above if (m := _REBINDS.match(line)) and m[1] in names), call])

    def _rescales(self, backward: Event, window: Window) -> list[Division]:
        """Divisions of the gradients between backward and step."""
        found = []
        for event in self._events:
            if event.kind is not EventKind.RESCALE or event.order < backward.order or not windows.trains(event):
                continue
            made = terms.divisions(_number_factors(event.value), window)
            found += [dataclasses.replace(d, after_backward=True, spot=event.spot) for d in made]
        return found


def _speaks_of_deepspeed(module: Module) -> bool:
    return re.search("deepspeed|ds_config", module.source, re.IGNORECASE) is not None


def _ranks(module: Module) -> Evidence | None:
    return next(evidence.signs(RANKS, module), None)


def _drops_last(module: Module) -> Evidence | None:
    return next(evidence.signs(DROP_LAST, module), None)


#: From what says least to what says most.
_ORDER = (Variation.UNKNOWN, Variation.FIXED, Variation.PROBABLE, Variation.CERTAIN)


def _known(option: tuple[LossTerm, ...]) -> tuple[bool, int, bool, int]:
    """How well an alternative is known: one that is divided first, then by its atoms, then by its factors."""
    divided = any(t.divided_by(Divisor.STEPS) for t in option)
    atoms = sum(t.atom.kind is not Kind.UNKNOWN for t in option)
    ranked = any(t.times(Divisor.RANKS) or any(_summed(d.value) for d in t.divisions) for t in option)
    return divided, atoms, ranked, sum(len(t.divisions) for t in option)


def _spots(option: tuple[LossTerm, ...]) -> frozenset[Spot]:
    return frozenset(t.atom.spot for t in option)


def _summed(value: Value) -> bool:
    return isinstance(value, Atom) and value.everywhere


def _most(option: tuple[LossTerm, ...]) -> Variation:
    telling = (t for t in option if t.scale is Scale.MEAN or t.atom.kind is Kind.LOSS)
    return max((t.variation for t in telling), key=_ORDER.index, default=Variation.UNKNOWN)


def _number_factors(value: Value | None) -> tuple[Factor, ...]:
    """The factors of a plain number: none of them is a loss."""
    match value:
        case Poly(terms=(term,)):
            return term.factors if term.atom is None else (*term.factors, Factor(term.atom, 1))
        case Choice(options=options):
            return next((found for o in options if (found := _number_factors(o))), ())
        case Sym() | Attr() | Item() | Called() | Atom():
            return (Factor(value, 1),)
        case _:
            return ()


def _is_masked(atom: Atom, found: list[Division]) -> bool:
    """Whether the microbatch's own count is one of items that vary, and not its size."""
    counts = [d for d in found if d.divisor is Divisor.LOCAL_ITEMS and d.power < 0]
    return (
        any(not re.search(r"numel|size\(|shape|len\(", text(d.value)) for d in counts) and atom.kind is not Kind.UNKNOWN
    )


def _default(steps: Value | None, written: outside.Setting | None) -> float | None:
    """The number that a number of steps is unless somebody says otherwise, where one is written."""
    match steps:
        case Const() | Sym(default=Const()):
            return algebra.number(steps if isinstance(steps, Const) else steps.default or Const(None))
        case _:
            default = written is not None and written.source is outside.Source.DEFAULT and written.value > 0
            return float(written.value) if written is not None and default else None
