"""The losses of PyTorch and what reduces them, as their documentation states it."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = [
    "BESIDE",
    "FUNCTIONS",
    "HEADS",
    "HEAD_CLASS",
    "MODULES",
    "SAMPLE_HEADS",
    "SHIFTING_HEADS",
    "TOKEN_HEADS",
    "LossSpec",
]


@dataclass(frozen=True, slots=True)
class LossSpec:
    """How a loss is called.

    `target` is the position of the target among a call's arguments. `ignores` says that it takes ``ignore_index``
    (default -100). `weighted` says that a ``weight`` changes the denominator of its mean (`CrossEntropyLoss`,
    `NLLLoss`; for the BCE losses a weight scales items but not the count). `reduction` is the default one.
    """

    name: str
    target: int = 1
    ignores: bool = False
    weighted: bool = False
    reduction: str = "mean"


_CE = LossSpec("cross_entropy", ignores=True, weighted=True)
_NLL = LossSpec("nll_loss", ignores=True, weighted=True)

#: ``torch.nn.functional`` and ``torch`` names.
FUNCTIONS = {
    "cross_entropy": _CE,
    "nll_loss": _NLL,
    "binary_cross_entropy": LossSpec("binary_cross_entropy"),
    "binary_cross_entropy_with_logits": LossSpec("binary_cross_entropy_with_logits"),
    "mse_loss": LossSpec("mse_loss"),
    "l1_loss": LossSpec("l1_loss"),
    "smooth_l1_loss": LossSpec("smooth_l1_loss"),
    "huber_loss": LossSpec("huber_loss"),
    "kl_div": LossSpec("kl_div"),
    "ctc_loss": LossSpec("ctc_loss"),
    "poisson_nll_loss": LossSpec("poisson_nll_loss"),
    "gaussian_nll_loss": LossSpec("gaussian_nll_loss"),
    "cosine_embedding_loss": LossSpec("cosine_embedding_loss", target=2),
    "margin_ranking_loss": LossSpec("margin_ranking_loss", target=2),
    "triplet_margin_loss": LossSpec("triplet_margin_loss", target=2),
    "hinge_embedding_loss": LossSpec("hinge_embedding_loss"),
    "soft_margin_loss": LossSpec("soft_margin_loss"),
    "multi_margin_loss": LossSpec("multi_margin_loss"),
    "multilabel_margin_loss": LossSpec("multilabel_margin_loss"),
    "multilabel_soft_margin_loss": LossSpec("multilabel_soft_margin_loss"),
}

#: ``torch.nn`` classes.
MODULES = {
    "CrossEntropyLoss": _CE,
    "NLLLoss": _NLL,
    "BCELoss": FUNCTIONS["binary_cross_entropy"],
    "BCEWithLogitsLoss": FUNCTIONS["binary_cross_entropy_with_logits"],
    "MSELoss": FUNCTIONS["mse_loss"],
    "L1Loss": FUNCTIONS["l1_loss"],
    "SmoothL1Loss": FUNCTIONS["smooth_l1_loss"],
    "HuberLoss": FUNCTIONS["huber_loss"],
    "KLDivLoss": FUNCTIONS["kl_div"],
    "CTCLoss": FUNCTIONS["ctc_loss"],
    "PoissonNLLLoss": FUNCTIONS["poisson_nll_loss"],
    "GaussianNLLLoss": FUNCTIONS["gaussian_nll_loss"],
    "CosineEmbeddingLoss": FUNCTIONS["cosine_embedding_loss"],
    "MarginRankingLoss": FUNCTIONS["margin_ranking_loss"],
    "TripletMarginLoss": FUNCTIONS["triplet_margin_loss"],
    "HingeEmbeddingLoss": FUNCTIONS["hinge_embedding_loss"],
    "SoftMarginLoss": FUNCTIONS["soft_margin_loss"],
    "MultiMarginLoss": FUNCTIONS["multi_margin_loss"],
    "MultiLabelMarginLoss": FUNCTIONS["multilabel_margin_loss"],
    "MultiLabelSoftMarginLoss": FUNCTIONS["multilabel_soft_margin_loss"],
}

#: Name parts of Transformers classes whose default loss is a mean over labels that are not ignored.
HEAD_CLASS = {
    "token": (
        "ForCausalLM",
        "LMHeadModel",
        "ForMaskedLM",
        "ForConditionalGeneration",
        "ForSeq2SeqLM",
        "ForPreTraining",
    ),
    "token_class": ("ForTokenClassification",),
    "sample": ("ForSequenceClassification", "ForImageClassification", "ForMultipleChoice", "ForNextSentencePrediction"),
    "span": ("ForQuestionAnswering",),
}

#: Families whose decoder gets its inputs from the labels, so that every label is scored.
_ENCODER_DECODERS = (
    r"(?:\w*T5\w*|\w*Bart\w*|\w*Pegasus\w*|Blenderbot\w*|LED|M2M100|NllbMoe|Marian|FSMT|\w*ProphetNet|Mvp|Whisper"
    r"|Speech2Text|Seamless\w*|SwitchTransformers|Pix2Struct|Florence2)"
)
#: Names of Transformers classes by what their default loss averages over: labels shifted by one, labels, samples.
SHIFTING_HEADS = (
    rf"(?!{_ENCODER_DECODERS}For)\w*(?:ForCausalLM|LMHeadModel|ForConditionalGeneration|ForVision2Seq"
    r"|ForImageTextToText)"
)
TOKEN_HEADS = (
    rf"{_ENCODER_DECODERS}ForConditionalGeneration|\w*(?:ForMaskedLM|ForTokenClassification|ForSeq2SeqLM"
    r"|ForSpeechSeq2Seq|EncoderDecoderModel|WithLMHead)"
)
SAMPLE_HEADS = (
    r"\w*(?:ForSequenceClassification|ForImageClassification|ForMultipleChoice|ForAudioClassification"
    r"|ForVideoClassification)"
)

#: What all of these names have: searched before they are matched.
HEADS = re.compile(r"For[A-Z]|LMHead|DecoderModel")

#: What a term beside the loss over the labels is called, such as a router's: its mean is one over the microbatch.
BESIDE = re.compile(r"aux|router|z_loss|balanc|moe|mtp", re.IGNORECASE)
