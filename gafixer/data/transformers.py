"""What gafixer knows of Transformers' `Trainer` and default losses, as data, by version."""

from __future__ import annotations

import enum
import re

__all__ = [
    "CAUSAL_HEADS",
    "COUNT",
    "COUNTED_HEADS",
    "DEFAULT_LOSS_TYPE",
    "DIVISIONS",
    "HEAD_NAME",
    "LABELS",
    "LOSS_TYPES",
    "PARTLY_COUNTED",
    "RELEASES",
    "TRAINER_FLAGS",
    "TRAINER_METHODS",
    "UNCOUNTED",
    "Division",
]

#: The name under which `Trainer` hands the window's count to models and losses.
COUNT = "num_items_in_batch"

#: What the name of a class with a default loss looks like.
HEAD_NAME = r"(?!DataCollator)\w*(?:For[A-Z]\w+|LMHeadModel|WithLMHead|DoubleHeadsModel)"

#: Of these, those whose loss shifts the labels, and those that score tokens and not samples.
CAUSAL_HEADS = r"ForCausalLM|LMHeadModel|ForConditionalGeneration|ForSeq2SeqLM|ForVision2Seq|ForImageTextToText"
COUNTED_HEADS = rf"{CAUSAL_HEADS}|ForMaskedLM|ForTokenClassification|ForPreTraining|WithLMHead"

#: Parameters of a forward that hold targets. `Trainer` counts the items of `labels` alone.
LABELS = re.compile(
    r"(^|_)(labels?|targets?)($|_)|^(start|end)_positions$|^next_sentence_label$|^sentence_order_label$|^y(_true)?$"
)

#: Keys of `LOSS_MAPPING` in the order in which a class name is searched for them (4.46 to 5.24).
LOSS_TYPES = (
    "ForSemanticSegmentation",
    "ForCausalLM",
    "ForMaskedLM",
    "ForQuestionAnswering",
    "ForSequenceClassification",
    "ForImageClassification",
    "ForVideoClassification",
    "ForAudioClassification",
    "ForTokenClassification",
    "ForSegmentation",
    "ForObjectDetection",
    "ForInstanceSegmentation",
    "ForCTC",
    "ForRNNT",
    "ForTDT",
    "ForConditionalGeneration",
)

#: What `loss_function` means where the class name holds none of them.
DEFAULT_LOSS_TYPE = "ForCausalLM"

#: Their loss takes the count for one label a sample, and drops it for regression and for several labels.
PARTLY_COUNTED = frozenset(
    {"ForSequenceClassification", "ForImageClassification", "ForVideoClassification", "ForAudioClassification"}
)

#: Their loss has a denominator of its own (matched targets, lengths).
UNCOUNTED = frozenset(
    {"ForSegmentation", "ForObjectDetection", "ForInstanceSegmentation", "ForCTC", "ForRNNT", "ForTDT"}
)

#: Methods of `Trainer` that people override -> the parameters that it hands over, with the release that began to.
TRAINER_METHODS: dict[str, tuple[tuple[str, str], ...]] = {
    "compute_loss": ((COUNT, "4.46"),),
    "training_step": ((COUNT, "4.46"),),
    "get_batch_samples": (("device", "4.52"),),  # read: absent in 4.47.1, there in 4.52.4
}

#: Switches of `Trainer` that say whether the model, or a loss of the user's, divides by the count.
TRAINER_FLAGS = ("model_accepts_loss_kwargs", "loss_is_scaled_for_ga")

#: Releases that are told apart: every minor release, and the patch releases at which something changed.
RELEASES = (
    *(f"4.{minor}.0" for minor in range(58)),
    *(f"5.{minor}.0" for minor in range(6)),
    "5.5.3",
    "5.5.4",
    *(f"5.{minor}.0" for minor in range(6, 25)),
)


class Division(enum.Enum):
    """Who divides a microbatch's loss by the number of steps; see the design, "who divides"."""

    ACCELERATE = "Accelerate"
    NOBODY = "nobody"
    TRAINER = "Trainer, unless the model takes loss kwargs"
    TRAINER_WITH_COUNT = "Trainer, unless the model takes loss kwargs and there is a count"
    TRAINER_AND_ACCELERATE = "Trainer as before, and Accelerate again"


#: First release -> who divides from there on.
DIVISIONS = (
    ("0", Division.ACCELERATE),
    ("4.46", Division.NOBODY),
    ("4.48", Division.TRAINER),
    ("4.53", Division.TRAINER_WITH_COUNT),
    ("5.2", Division.TRAINER_AND_ACCELERATE),
    ("5.5.4", Division.TRAINER_WITH_COUNT),
)
