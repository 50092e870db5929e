"""Whether the count of items varies among microbatches: what the code says about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gafixer.analysis.site import Evidence, Items, Variation
from gafixer.analysis.values import Atom, Called, Const, Item, Kind, Opaque, Reduction, Spot, Value, peel, text
from gafixer.data.losses import HEAD_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gafixer.analysis.source import Module

__all__ = ["Surroundings", "judge"]

#: Code that makes labels which are not scored, or batches of unequal length; strongest first.
_VARIES = (
    (re.compile(r"(?<![\w.])-100\b"), "labels are set to -100 here, and are not scored"),
    (re.compile(r"DataCollatorFor(?:Seq2Seq|TokenClassification|LanguageModeling|CompletionOnlyLM)|DataCollatorWithPadding"), "this collator pads, and ignores the padding"),
    (re.compile(r"pad_sequence\(|\.pad\(.*(?:return_tensors|padding)|padding\s*=\s*(?:True|[\"']longest[\"'])"), "sequences of unequal length are padded here"),
    (re.compile(r"IGNORE_INDEX|ignore_id\b|label_pad_token_id|LABEL_PAD|loss_mask|label_mask|padding_idx|pad_token_id|pad_idx|PAD_IDX"), "some targets are left out here"),
    (re.compile(r"max_tokens|batch_by_size|token_bucket|BucketIterator|dynamic_batch"), "batches are made by length here"),
)  # fmt: skip

#: Code that cuts text into blocks of one length, every target scored.
_FIXED = (
    (re.compile(r"stack\(\[.*\[\s*\w+\s*(?:\+\s*1\s*)?:\s*\w+\s*\+"), "batches are stacked from blocks of one length here"),
    (re.compile(r"memmap\(|\.view\(\s*(?:self\.)?B\s*,\s*(?:self\.)?T\s*\)|group_texts|block_size\s*\)\s*\*\s*block_size|PackedDataset|TokenBuffer|concat_chunk"), "text is cut into blocks of one length here"),
    (re.compile(r"tokenizing_distributed_data_loader|DataLoaderLite|DistributedDataLoader|\brandint\([^)]*(?:block_size|seq_len|context|ctx)"), "text is cut into blocks of one length here"),
)  # fmt: skip

_TOKEN_SHAPE = re.compile(
    r"view\(\s*-1|reshape\(\s*-1|flatten|transpose\(\s*1\s*,\s*2|transpose\(\s*-?\d\s*,|permute\(|\[\s*\.\.\.\s*,\s*:-1|\[:\s*,\s*:-1|rearrange\(|shift_|view\(\w+\s*\*"
)
_IMAGE = re.compile(r"image|img|pixel|photo|frame|latent|noise|video|depth|mask_true|true_mask", re.IGNORECASE)


class Surroundings:
    """The modules that a run touched, asked line by line and only once."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = list(modules)
        self._varies: list[tuple[int, Evidence]] | None = None
        self._fixed: list[Evidence] | None = None

    def varies(self) -> list[tuple[int, Evidence]]:
        """Places where counts are made unequal, with the rank of their kind (0 strongest)."""
        if self._varies is None:
            self._varies = [
                (rank, found)
                for rank, (pattern, message) in enumerate(_VARIES)
                for found in _matches(pattern, message, self.modules)
            ]
        return self._varies

    def fixed(self) -> list[Evidence]:
        """Places where blocks of one length are made."""
        if self._fixed is None:
            self._fixed = [f for pattern, message in _FIXED for f in _matches(pattern, message, self.modules)]
        return self._fixed


def _matches(pattern: re.Pattern[str], message: str, modules: list[Module]) -> Iterable[Evidence]:
    for module in modules:
        for match in pattern.finditer(module.source):
            row = module.source.count("\n", 0, match.start()) + 1
            line = module.line(row)
            if line.lstrip().startswith(("#", '"', "'", "import ", "from ")):
                continue
            start = len(line) - len(line.lstrip())
            yield Evidence(Spot(module.path, row, start, row, len(line.rstrip().encode())), message)
            break


def judge(
    atom: Atom, line: str, around: Surroundings, masked: bool
) -> tuple[Items, Variation, tuple[Evidence, ...]]:
    """What a term counts, whether that count varies, and what says so. `line` is the source of the loss call."""
    if atom.samples:
        return Items.SAMPLES, Variation.FIXED, ()
    if atom.weighted:
        return Items.WEIGHTS, Variation.CERTAIN, (Evidence(atom.spot, "a mean with class weights divides by the weights of its own targets"),)
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
    if atom.name not in {"cross_entropy", "nll_loss", "ctc_loss", "kl_div"}:
        return Items.ELEMENTS, Variation.FIXED, ()
    ignores = atom.ignore is not None and atom.ignore != Const(None)
    tokens = _TOKEN_SHAPE.search(line) is not None
    if not tokens and not ignores:
        return Items.SAMPLES, Variation.FIXED, ()
    fixed = around.fixed()
    if ignores:
        evidence = Evidence(atom.spot, f"targets equal to {text(atom.ignore)} are not scored")
        if fixed and not _strong(around):
            return Items.TOKENS, Variation.FIXED, tuple(fixed[:1])
        return Items.TOKENS, Variation.CERTAIN, (evidence, *_first(around, 1))
    if _IMAGE.search(text(atom.target)):
        return Items.ELEMENTS, Variation.FIXED, ()
    return _tokens(around)


def _strong(around: Surroundings) -> bool:
    """Whether something says that labels are left out, not only that sequences are padded."""
    return any(rank == 0 for rank, _ in around.varies())


def _first(around: Surroundings, count: int) -> tuple[Evidence, ...]:
    return tuple(e for _, e in around.varies()[:count])


def _tokens(around: Surroundings) -> tuple[Items, Variation, tuple[Evidence, ...]]:
    if _strong(around):
        return Items.TOKENS, Variation.CERTAIN, _first(around, 2)
    if around.fixed():
        return Items.TOKENS, Variation.FIXED, tuple(around.fixed()[:1])
    return Items.TOKENS, Variation.PROBABLE, _first(around, 2)


def _head(atom: Atom, around: Surroundings) -> tuple[Items, Variation, tuple[Evidence, ...]]:
    kind = _head_kind(atom, around)
    if kind in {"sample", "span"}:
        return Items.SAMPLES, Variation.FIXED, ()
    call = atom.of
    labelled = isinstance(call, Called) and any(
        name in {"labels", "**", "lm_labels", "masked_lm_labels", "label", "target_ids"} for name, _ in call.keywords
    )
    if labelled or kind in {"token", "token_class"}:
        return _tokens(around)
    if _strong(around) and not around.fixed():
        return Items.TOKENS, Variation.CERTAIN, _first(around, 2)
    return Items.UNKNOWN, Variation.UNKNOWN, ()


def _head_kind(atom: Atom, around: Surroundings) -> str | None:
    """Which kind of head the model is, by the classes that the code names."""
    origin = text(peel(atom.of.func)) if isinstance(atom.of, Called) else ""
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
            return Items.MASKED, Variation.CERTAIN, (Evidence(atom.spot, "the mean is over the items that are selected"),)
    return Items.UNKNOWN, Variation.UNKNOWN, ()


def _selection(value: Value | None) -> Value | None:
    match value:
        case Item(key=key) if not isinstance(key, Const | Opaque):
            return key
        case _:
            return None

