"""What code looks like that makes the items of microbatches unequal, or equal. Searched as text."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["DECLARES", "DROP_LAST", "FIXED", "RANKS", "STRONG", "VARIES", "WHOLE", "WIDTHS", "Look", "Sign"]


@dataclass(frozen=True, slots=True)
class Look:
    """How code may look.

    One of `words` stands in whatever `pattern` matches: that none does is known many times sooner. For the same reason
    patterns begin with letters where they can; what must stand before these is looked back at.
    """

    words: tuple[str, ...]
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Sign:
    """What code says that looks one of some ways."""

    message: str
    looks: tuple[Look, ...]


def _sign(message: str, *looks: tuple[tuple[str, ...], str]) -> Sign:
    return Sign(message, tuple(Look(words, re.compile(pattern, re.MULTILINE)) for words, pattern in looks))


_IGNORED = r"(?:self\.|\w+\.)?(?:IGNORE_INDEX|ignore_index|IGNORE_TOKEN_ID|LABEL_PAD_ID|pad_token_label_id)"
_SET_TO = ("] = -", "] =-", "]= -", "]=-")

#: Code that makes labels which are not scored, or batches of unequal length; strongest first.
VARIES = (
    _sign(
        "labels are set to -100 here, and are not scored",
        (
            ("-100", "- 100"),
            r"=\s*- ?100\b|-100\s*\]|,\s*- ?100\s*\)|-100\s+(?:if|for|else)\b|else\s+-100\b",
        ),
    ),
    _sign(
        "labels are set to the ignored one here",
        (
            (
                "IGNORE_INDEX",
                "ignore_index",
                "IGNORE_TOKEN_ID",
                "ignore_token_id",
                "LABEL_PAD_ID",
                "pad_token_label_id",
            ),
            rf"\[\s*{_IGNORED}\s*\]|(?:fill_value|padding_value|_fill_?\(.*)\s*[=,]?\s*{_IGNORED}"
            r"|=\s*(?:self\.|\w+\.)?(?:IGNORE_INDEX|IGNORE_TOKEN_ID|ignore_token_id)\b",
        ),
    ),
    _sign(
        "targets are set to -1 here, and are not scored",
        (
            (*(f"{word}1" for word in _SET_TO), *(f"{word} 1" for word in _SET_TO)),
            r"^[ \t]*\w*(?:target|label|\by)\w*\[.*\] ?= ?- ?1\b",
        ),
        (("pad_id", "fill_value", "padding_value"), r"\b(?:pad_id|fill_value|padding_value)\s*=\s*-1\b"),
        (("full(", "full_like(", "masked_fill"), r"\b(?:full|full_like|masked_fill_?)\(.*,\s*-1\s*[,)]"),
    ),
    _sign(
        "this collator pads, and ignores the padding",
        (
            ("DataCollator",),
            r"DataCollatorFor(?:Seq2Seq|TokenClassification|LanguageModeling|CompletionOnlyLM)|DataCollatorWithPadding",
        ),
    ),
    _sign(
        "a mask says which targets are scored",
        (("_mask",), r"(?:loss|label|answer|response|completion|assistant)_masks?\b"),
    ),
    _sign(
        "sequences of unequal length are padded here",
        (("pad_sequence(",), r"pad_sequence\("),
        ((".pad(",), r"\.pad\(.*(?:return_tensors|padding)"),
        (("padding",), r"padding\s*=\s*(?:True|[\"']longest[\"'])"),
    ),
    _sign(
        "padding is told from targets here",
        (
            ("ignore_id", "padding_idx", "pad_token_id", "pad_idx", "PAD_IDX", "-100"),
            r"ignore_id\b|padding_idx|pad_token_id|pad_idx|PAD_IDX|!=\s*-100|\.ne\(-100",
        ),
    ),
    _sign(
        "batches are made by length here",
        (
            (
                "batch_by_size",
                "tokens_per_",
                "tokens_in_",
                "max_tokens_batch",
                "max-tokens",
                "token_bucket",
                "Bucket",
                "dynamic_batch",
            ),
            r"batch_by_size|tokens_(?:per|in)_(?:micro_?)?batch|max_tokens_batch|max-tokens|token_bucket|BucketIterator"
            r"|BucketBatchSampler|dynamic_batch",
        ),
    ),
)

#: How many of the above say that targets are left out, and not only that something is padded.
STRONG = 5

#: Those of the above that make the batches themselves unequal, as wide as their longest row.
WIDTHS = frozenset({3, 5, 7})

#: Labels that are the inputs themselves: padding is scored too, so that only the width of a batch can vary.
WHOLE = _sign(
    "labels are the inputs themselves here: padding is scored too",
    (
        ("input_ids",),
        r"""labels["']?\]?\s*[=:]\s*[^=\n]*input_ids["']?\]?(?:\.clone\(\)|\.copy\(\))?\s*[,})]?\s*$""",
    ),
)

#: What looks like one of the above but only declares it.
DECLARES = re.compile(
    r"ignore_index\s*(?::\s*\w+\s*)?=\s*-?100|^\s*(?:def |class |import |from |#|\"|')|ignore_index=-100"
)

_LENGTH = r"(?:block_size|seq_len|context|ctx)"
_FULL = ("context_length", "block_size", "max_length", "seq_len")
_FULL_OR_UPPER = (*_FULL, *map(str.upper, _FULL))
_TAKEN = (
    "tokens",
    "length",
    "seqlen",
    "seq_len",
    "seqlength",
    "seq_length",
    "block_size",
    "context_length",
    "chunk_size",
)
_CUT = "text is cut into blocks of one length here"

#: Code that cuts text into blocks of one length, every target scored.
FIXED = (
    _sign(
        "batches are stacked from blocks of one length here",
        (("stack([",), r"stack\(\[.*\[\s*\w+\s*(?:\+\s*1\s*)?:\s*\(?\w+\s*\+"),
    ),
    _sign(
        _CUT,
        (
            ("memmap(", ".view(", "group_texts", "block_size", "PackedDataset", "TokenBuffer", "concat_chunk"),
            r"memmap\(|\.view\(\s*(?:self\.)?B\s*,\s*(?:self\.)?T\s*\)|group_texts|block_size\s*\)\s*\*\s*block_size"
            r"|PackedDataset|TokenBuffer|concat_chunk",
        ),
    ),
    _sign(
        # The HF course's way: only what fills a whole block is kept.
        "what does not fill a block of one length is left out here",
        (
            _FULL_OR_UPPER,
            rf"len(?<!\wlen)(?:gth)?(?:\([^)]*\))?\s*==\s*(?:\w+\.)*(?:{'|'.join(_FULL_OR_UPPER)})\b",
        ),
    ),
    _sign(
        "every batch is said to have one shape here",
        (_FULL, rf"\.shape\s*==\s*\([^)]*\b(?:{'|'.join(_FULL)})\b"),
    ),
    _sign(
        # What is left of a buffer once a block was taken off its front.
        _CUT,
        (
            tuple(f"{name}{colon}" for name in _TAKEN for colon in (":]", ": ]", " :]", " : ]")),
            rf"(\b(?:self\.)?\w+)\s*=\s*\1\s*\[\s*(?:self\.)?(?:max_)?(?:{'|'.join(_TAKEN)}) ?: ?\]",
        ),
    ),
    _sign(
        # PyTorch's own loader takes no length: one that does is written to give rows of it.
        _CUT,
        (("seq_len", "seqlen"), r"oader(?<=[Ll]oader)\w*\([^)\n]*\bseq_?len(?:gth)?\s*="),
    ),
    _sign(
        _CUT,
        (
            ("tokenizing_distributed_data_loader", "DataLoaderLite", "DistributedDataLoader"),
            r"tokenizing_distributed_data_loader|DataLoaderLite|DistributedDataLoader",
        ),
        (
            ("randint(",),
            rf"randint\((?<!\wrandint\()[^)]*-\s*(?:\w+\.)*{_LENGTH}",
        ),
        (
            (".size(0)",),
            rf"rand(?<!\wrand)(?:int|perm)?\([^)]*\.size\(0\)\s*-\s*(?:self\.)?{_LENGTH}",
        ),
    ),
    _sign(
        "inputs and targets are cut to one length here",
        (
            ("max_seq_length", "block_size", "seq_len", "context_length"),
            r"\[\s*:\s*,\s*1\s*:\s*\(?\s*[\w.]*(?:max_seq_length|block_size|seq_len|context_length)",
        ),
    ),
)

#: Code that trains in several processes.
RANKS = _sign(
    "several ranks average their gradients here",
    (
        (
            "DistributedDataParallel",
            "DDP(",
            "FullyShardedDataParallel",
            "fully_shard",
            "init_process_group",
            "FSDP(",
            "fabric.setup",
            "Accelerator(",
        ),
        r"DistributedDataParallel|\bDDP\(|FullyShardedDataParallel|fully_shard|init_process_group|\bFSDP\(|fabric\.setup"
        r"|Accelerator\(",
    ),
)

#: Code that leaves out what does not fill a batch.
DROP_LAST = _sign("the short last batch is dropped here", (("drop_last",), r"drop_last\s*=\s*True"))
