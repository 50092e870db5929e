"""Whether the count of items varies among microbatches: what the code says about it."""

from __future__ import annotations

import heapq
import re
from typing import TYPE_CHECKING

from gafixer.analysis import measured
from gafixer.analysis.site import Evidence, Items, Variation
from gafixer.analysis.spelling import peel, text
from gafixer.analysis.values import Atom, Called, Const, Item, Kind, Opaque, Reduction, Sym, Value
from gafixer.data.evidence import DECLARES, FIXED, STRONG, VARIES, WHOLE, WIDTHS
from gafixer.data.losses import BESIDE, HEAD_CLASS
from gafixer.data.transformers import HEAD_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gafixer.analysis.source import Module
    from gafixer.data.evidence import Sign

__all__ = ["Surroundings", "judge", "signs"]

_TOKEN_SHAPE = re.compile(
    r"view\(\s*-1|reshape\(\s*-1|flatten|transpose\(\s*1\s*,\s*2|transpose\(\s*-?\d\s*,|permute\(|\[\s*\.\.\.\s*,\s*:-1|\[:\s*,\s*:-1|rearrange\(|shift_|view\(\w+\s*\*"
)
_IMAGE = re.compile(r"image|img|pixel|photo|frame|latent|noise|video|depth|mask_true|true_mask", re.IGNORECASE)


_HEADS = re.compile(rf"\b{HEAD_NAME}\b")
#: How labels reach a model: by their name, or with the whole batch.
_LABELS = frozenset({"labels", "lm_labels", "masked_lm_labels", "label", "target_ids"})
_BATCH = frozenset({"**"})


class Surroundings:
    """The modules that a run touched, the scanned one first; each is asked once."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = list(modules)
        self._varies: list[tuple[int, int, Evidence]] | None = None
        self._fixed: list[tuple[int, Evidence]] | None = None

    def varies(self) -> list[tuple[int, int, Evidence]]:
        """Places where counts are made unequal: how far away (0: the scanned module), rank of their kind, what."""
        if self._varies is None:
            self._varies = sorted(
                ((away, rank, found) for away, module in self._near() for rank, found in module.once(_variations)),
                key=lambda entry: (entry[0], entry[1]),
            )
        return self._varies

    def fixed(self) -> list[tuple[int, Evidence]]:
        """Places where blocks of one length are made, and how far away."""
        if self._fixed is None:
            self._fixed = [(away, found) for away, module in self._near() for found in module.once(_blocks)]
        return self._fixed

    def _near(self) -> Iterable[tuple[int, Module]]:
        return ((min(position, 1), module) for position, module in enumerate(self.modules))

    def fixed_here(self) -> bool:
        """Whether the scanned module makes blocks of one length and leaves no target out."""
        return any(away == 0 for away, _ in self.fixed()) and self.strong() is None

    def strong(self) -> Evidence | None:
        """What says that targets are left out, unless something as near says that blocks have one length."""
        found = next(((away, e) for away, rank, e in self.varies() if rank < STRONG), None)
        if found is None or any(away < found[0] for away, _ in self.fixed()):
            return None
        return found[1]

    def whole(self) -> Evidence | None:
        """Where the scanned module scores every position of its inputs."""
        return self.modules[0].once(_whole)

    def said(self, count: int) -> tuple[Evidence, ...]:
        """The best places that say that counts vary."""
        return tuple(e for _, _, e in self.varies()[:count])


def _variations(module: Module) -> list[tuple[int, Evidence]]:
    """Where a module makes counts unequal: the first place of each kind, with the kind's rank."""
    found = ((rank, _first(sign, module)) for rank, sign in enumerate(VARIES))
    return [(rank, evidence) for rank, evidence in found if evidence is not None]


def _blocks(module: Module) -> list[Evidence]:
    """Where a module makes blocks of one length: the first place of each kind."""
    found = (_first(sign, module) for sign in FIXED)
    return [evidence for evidence in found if evidence is not None]


def _whole(module: Module) -> Evidence | None:
    return _first(WHOLE, module)


def _first(sign: Sign, module: Module) -> Evidence | None:
    return next((e for e in signs(sign, module) if not DECLARES.search(module.line(e.spot.row))), None)


def signs(sign: Sign, module: Module) -> Iterator[Evidence]:
    """Where a module shows a sign, from its top to its bottom."""
    looks = [look for look in sign.looks if any(word in module.source for word in look.words)]
    for start in heapq.merge(*(map(re.Match.start, look.pattern.finditer(module.source)) for look in looks)):
        yield Evidence(module.line_spot(start), sign.message)


def judge(atom: Atom, line: str, around: Surroundings, masked: bool) -> tuple[Items, Variation, tuple[Evidence, ...]]:
    """What a term counts, whether that count varies, and what says so. `line` is the source of the loss call."""
    if atom.samples:
        return Items.SAMPLES, Variation.FIXED, ()
    if atom.weighted:
        return (
            Items.WEIGHTS,
            Variation.CERTAIN,
            (Evidence(atom.spot, "a mean with class weights divides by the weights of its own targets"),),
        )
    if (atom.mask is not None or masked) and around.fixed_here() and atom.spot.path != around.modules[0].path:
        return Items.MASKED, Variation.FIXED, (around.fixed()[0][1],)
    if atom.mask is not None or masked:
        return Items.MASKED, Variation.CERTAIN, (Evidence(atom.spot, "the mean is over the items that a mask keeps"),)
    match atom.kind:
        case Kind.LOSS:
            return _loss(atom, line, around)
        case Kind.HEAD:
            return _head(atom, around)
        case _:
            return _other(atom, around)


def _loss(atom: Atom, line: str, around: Surroundings) -> tuple[Items, Variation, tuple[Evidence, ...]]:
    if atom.own is not None:
        return _own(atom, around)
    if atom.name not in {"cross_entropy", "nll_loss", "ctc_loss", "kl_div"}:
        return Items.ELEMENTS, Variation.FIXED, ()
    ignores = atom.ignore is not None and atom.ignore != Const(None)
    chosen = ignores and not _is_default(atom.ignore)
    tokens = _TOKEN_SHAPE.search(line) is not None
    if not tokens and not ignores:
        return Items.SAMPLES, Variation.FIXED, ()
    if atom.whole:
        return _positions(around)
    if not ignores and _IMAGE.search(text(atom.target)):
        return Items.ELEMENTS, Variation.FIXED, ()
    if chosen and not (around.fixed() and around.strong() is None):
        evidence = Evidence(atom.spot, f"targets equal to {text(atom.ignore)} are not scored")
        return Items.TOKENS, Variation.CERTAIN, (evidence, *around.said(1))
    return _tokens(around)


def _positions(around: Surroundings) -> tuple[Items, Variation, tuple[Evidence, ...]]:
    """A mean over every position: what isn't scored is counted too, so that only the width of a batch can vary."""
    if around.fixed():
        return Items.ELEMENTS, Variation.FIXED, (around.fixed()[0][1],)
    wide = tuple(found for _, rank, found in around.varies() if rank in WIDTHS)
    return Items.ELEMENTS, Variation.CERTAIN if wide else Variation.UNKNOWN, wide[:1]


def _own(atom: Atom, around: Surroundings) -> tuple[Items, Variation, tuple[Evidence, ...]]:
    """A loss that the project declares: it leaves targets out where that says so."""
    if atom.ignore is None:
        return Items.ELEMENTS, Variation.FIXED, ()
    if atom.whole:
        return _positions(around)
    evidence = Evidence(atom.spot, f"targets equal to {text(atom.ignore)} are not scored, as the settings declare")
    return Items.TOKENS, Variation.CERTAIN, (evidence, *around.said(1))


def _is_default(ignore: Value | None) -> bool:
    """Whether an ignored label is only PyTorch's own, handed on by a parameter."""
    return isinstance(ignore, Sym) and ignore.key.endswith("ignore_index") and ignore.default == Const(-100)


def _tokens(around: Surroundings) -> tuple[Items, Variation, tuple[Evidence, ...]]:
    if (strong := around.strong()) is not None:
        return Items.TOKENS, Variation.CERTAIN, tuple(dict.fromkeys((strong, *around.said(1))))
    if around.fixed():
        return Items.TOKENS, Variation.FIXED, (around.fixed()[0][1],)
    if (whole := around.whole()) is not None:
        return Items.TOKENS, Variation.UNKNOWN, (whole,)
    return Items.TOKENS, Variation.PROBABLE, around.said(2)


def _head(atom: Atom, around: Surroundings) -> tuple[Items, Variation, tuple[Evidence, ...]]:
    if isinstance(atom.part, str) and BESIDE.search(atom.part):
        return Items.UNKNOWN, Variation.UNKNOWN, ()
    kind = _head_kind(atom, around)
    if kind in {"sample", "span"}:
        return Items.SAMPLES, Variation.FIXED, ()
    call = atom.of
    named = {name for name, _ in call.keywords} if isinstance(call, Called) else set()
    labelled = bool(named & (_LABELS | _BATCH))
    own = isinstance(atom.part, str) and atom.part != "loss"
    if own and kind is None and not named & _LABELS and not around.varies() and not around.fixed():
        return Items.UNKNOWN, Variation.UNKNOWN, ()  # some loss of a whole batch, by a model of one's own
    if labelled or kind in {"token", "token_class"}:
        return _tokens(around)
    if (strong := around.strong()) is not None:
        return Items.TOKENS, Variation.CERTAIN, (strong,)
    return Items.UNKNOWN, Variation.UNKNOWN, ()


def _head_kind(atom: Atom, around: Surroundings) -> str | None:
    """Which kind of head the model is, by the classes that the code names."""
    origin = text(peel(atom.of.func)) if isinstance(atom.of, Called) else ""
    measured_as = next((found for name in _HEADS.findall(origin) if (found := measured.kind(name)) is not None), None)
    if measured_as is not None:
        return measured_as
    named = {kind for kind, parts in HEAD_CLASS.items() if any(part in origin for part in parts)}
    if not named:
        sources = around.modules[:1]
        named = {k for k, parts in HEAD_CLASS.items() if any(p in m.source for m in sources for p in parts)}
    if len(named) == 1:
        return named.pop()
    return "token" if "token" in named else None


def _other(atom: Atom, around: Surroundings) -> tuple[Items, Variation, tuple[Evidence, ...]]:
    if atom.kind is Kind.REDUCED and atom.reduction is Reduction.MEAN:
        selected = _selection(atom.of)
        if selected is not None:
            return (
                Items.MASKED,
                Variation.CERTAIN,
                (Evidence(atom.spot, "the mean is over the items that are selected"),),
            )
    return Items.UNKNOWN, Variation.UNKNOWN, ()


def _selection(value: Value | None) -> Value | None:
    match value:
        case Item(key=key) if not isinstance(key, Const | Opaque):
            return key
        case _:
            return None
