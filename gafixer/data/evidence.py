"""What code looks like that makes the items of microbatches unequal, or equal. Searched line by line as text."""

from __future__ import annotations

import re

__all__ = ["DECLARES", "FIXED", "STRONG", "VARIES", "WHOLE", "WIDTHS"]

_IGNORED = r"(?:self\.|\w+\.)?(?:IGNORE_INDEX|ignore_index|IGNORE_TOKEN_ID|LABEL_PAD_ID|pad_token_label_id)"

#: Code that makes labels which are not scored, or batches of unequal length; strongest first.
VARIES = (
    (
        re.compile(r"=\s*-\s*100\b|-100\s*\]|,\s*-100\s*\)|-100\s+(?:if|for|else)\b|else\s+-100\b"),
        "labels are set to -100 here, and are not scored",
    ),
    (
        re.compile(
            rf"\[\s*{_IGNORED}\s*\]|(?:fill_value|padding_value|_fill_?\(.*)\s*[=,]?\s*{_IGNORED}"
            r"|=\s*(?:self\.|\w+\.)?(?:IGNORE_INDEX|IGNORE_TOKEN_ID|ignore_token_id)\b"
        ),
        "labels are set to the ignored one here",
    ),
    (
        re.compile(
            r"^\s*\w*(?:target|label|\by)\w*\[.*\]\s*=\s*-\s*1\b|\b(?:pad_id|fill_value|padding_value)\s*=\s*-1\b"
            r"|\b(?:full|full_like|masked_fill_?)\(.*,\s*-1\s*[,)]",
            re.MULTILINE,
        ),
        "targets are set to -1 here, and are not scored",
    ),
    (
        re.compile(
            r"DataCollatorFor(?:Seq2Seq|TokenClassification|LanguageModeling|CompletionOnlyLM)|DataCollatorWithPadding"
        ),
        "this collator pads, and ignores the padding",
    ),
    (
        re.compile(r"(?:loss|label|answer|response|completion|assistant)_masks?\b"),
        "a mask says which targets are scored",
    ),
    (
        re.compile(r"pad_sequence\(|\.pad\(.*(?:return_tensors|padding)|padding\s*=\s*(?:True|[\"']longest[\"'])"),
        "sequences of unequal length are padded here",
    ),
    (
        re.compile(r"ignore_id\b|padding_idx|pad_token_id|pad_idx|PAD_IDX|!=\s*-100|\.ne\(-100"),
        "padding is told from targets here",
    ),
    (
        re.compile(
            r"batch_by_size|tokens_(?:per|in)_(?:micro_?)?batch|max_tokens_batch|max-tokens|token_bucket|BucketIterator"
            r"|BucketBatchSampler|dynamic_batch"
        ),
        "batches are made by length here",
    ),
)

#: How many of the above say that targets are left out, and not only that something is padded.
STRONG = 5

#: Those of the above that make the batches themselves unequal, as wide as their longest row.
WIDTHS = frozenset({3, 5, 7})

#: Labels that are the inputs themselves: padding is scored too, so that only the width of a batch can vary.
WHOLE = re.compile(
    r"""labels["']?\]?\s*[=:]\s*[^=\n]*input_ids["']?\]?(?:\.clone\(\)|\.copy\(\))?\s*[,})]?\s*$""", re.MULTILINE
)

#: What looks like one of the above but only declares it.
DECLARES = re.compile(
    r"ignore_index\s*(?::\s*\w+\s*)?=\s*-?100|^\s*(?:def |class |import |from |#|\"|')|ignore_index=-100"
)

_LENGTH = r"(?:block_size|seq_len|context|ctx)"
_CUT = "text is cut into blocks of one length here"

#: Code that cuts text into blocks of one length, every target scored.
FIXED = (
    (
        re.compile(r"stack\(\[.*\[\s*\w+\s*(?:\+\s*1\s*)?:\s*\(?\w+\s*\+"),
        "batches are stacked from blocks of one length here",
    ),
    (
        re.compile(
            r"memmap\(|\.view\(\s*(?:self\.)?B\s*,\s*(?:self\.)?T\s*\)|group_texts|block_size\s*\)\s*\*\s*block_size"
            r"|PackedDataset|TokenBuffer|concat_chunk"
        ),
        _CUT,
    ),
    (
        # The HF course's way: only what fills a whole block is kept.
        re.compile(r"\blen(?:gth)?(?:\([^)]*\))?\s*==\s*(?:\w+\.)*(?i:context_length|block_size|max_length|seq_len)\b"),
        "what does not fill a block of one length is left out here",
    ),
    (
        re.compile(r"\.shape\s*==\s*\([^)]*\b(?:seq_len|block_size|context_length|max_length)\b"),
        "every batch is said to have one shape here",
    ),
    (
        # What is left of a buffer once a block was taken off its front.
        re.compile(
            r"(\b(?:self\.)?\w+)\s*=\s*\1\s*\[\s*(?:self\.)?(?:max_)?(?:tokens|length|seq_?len\w*|block_size|context_length"
            r"|chunk_size)\s*:\s*\]"
        ),
        _CUT,
    ),
    (
        # PyTorch's own loader takes no length: one that does is written to give rows of it.
        re.compile(r"\b\w*[Ll]oader\w*\([^)\n]*\bseq_?len(?:gth)?\s*="),
        _CUT,
    ),
    (
        re.compile(
            r"tokenizing_distributed_data_loader|DataLoaderLite|DistributedDataLoader"
            rf"|\brandint\([^)]*-\s*(?:\w+\.)*{_LENGTH}|\brand(?:int|perm)?\([^)]*\.size\(0\)\s*-\s*(?:self\.)?{_LENGTH}"
        ),
        _CUT,
    ),
    (
        re.compile(r"\[\s*:\s*,\s*1\s*:\s*\(?\s*[\w.]*(?:max_seq_length|block_size|seq_len|context_length)"),
        "inputs and targets are cut to one length here",
    ),
)
