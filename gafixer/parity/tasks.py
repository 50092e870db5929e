"""What a head is trained for, read as Transformers itself reads it: from the class name's convention."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["LABEL_ARGUMENTS", "Problem", "Task", "task_of"]

# Arguments of a forward that carry targets. A forward that takes one of them has a default loss.
LABEL_ARGUMENTS = frozenset(
    {
        "class_labels",
        "end_positions",
        "input_labels",
        "labels",
        "mask_labels",
        "mc_labels",
        "next_sentence_label",
        "sentence_order_label",
        "start_positions",
    }
)


class Task(enum.Enum):
    """What the default loss of a head scores."""

    CAUSAL_LM = "causal-lm"
    MASKED_LM = "masked-lm"
    CONDITIONAL_GENERATION = "conditional-generation"
    SEQUENCE_CLASSIFICATION = "sequence-classification"
    TOKEN_CLASSIFICATION = "token-classification"
    QUESTION_ANSWERING = "question-answering"
    MULTIPLE_CHOICE = "multiple-choice"
    NEXT_SENTENCE = "next-sentence"
    PRETRAINING = "pretraining"
    DOUBLE_HEADS = "double-heads"
    IMAGE_CLASSIFICATION = "image-classification"
    VIDEO_CLASSIFICATION = "video-classification"
    AUDIO_CLASSIFICATION = "audio-classification"
    AUDIO_FRAME_CLASSIFICATION = "audio-frame-classification"
    XVECTOR = "xvector"
    CTC = "ctc"
    TRANSDUCER = "transducer"
    SPEECH_GENERATION = "speech-generation"
    SEMANTIC_SEGMENTATION = "semantic-segmentation"
    INSTANCE_SEGMENTATION = "instance-segmentation"
    OBJECT_DETECTION = "object-detection"
    DEPTH_ESTIMATION = "depth-estimation"
    MASKED_IMAGE_MODELING = "masked-image-modeling"
    IMAGE_TEXT_MATCHING = "image-text-matching"
    OTHER = "other"


class Problem(enum.Enum):
    """`config.problem_type` of a classification head."""

    SINGLE_LABEL = "single_label_classification"
    MULTI_LABEL = "multi_label_classification"
    REGRESSION = "regression"


# First that matches, on the class name's end.
_ENDINGS: tuple[tuple[str, Task], ...] = (
    (r"DoubleHeadsModel", Task.DOUBLE_HEADS),
    (r"ForNextSentencePrediction", Task.NEXT_SENTENCE),
    (r"ForPreTraining", Task.PRETRAINING),
    (r"ForMaskedLM", Task.MASKED_LM),
    (r"ForQuestionAnswering(Simple)?", Task.QUESTION_ANSWERING),
    (r"ForMultipleChoice", Task.MULTIPLE_CHOICE),
    (r"ForTokenClassification", Task.TOKEN_CLASSIFICATION),
    (r"For(Sequence|EntityPair|Entity)Classification", Task.SEQUENCE_CLASSIFICATION),
    (r"ForImageClassification(Learned|Fourier|ConvProcessing)?", Task.IMAGE_CLASSIFICATION),
    (r"ForVideoClassification", Task.VIDEO_CLASSIFICATION),
    (r"ForAudioClassification", Task.AUDIO_CLASSIFICATION),
    (r"ForAudioFrameClassification", Task.AUDIO_FRAME_CLASSIFICATION),
    (r"ForXVector", Task.XVECTOR),
    (r"ForCTC", Task.CTC),
    (r"For(RNNT|TDT)", Task.TRANSDUCER),
    (r"ForSemanticSegmentation", Task.SEMANTIC_SEGMENTATION),
    (r"For(Universal|Instance|Image)?Segmentation", Task.INSTANCE_SEGMENTATION),
    (r"ForObjectDetection", Task.OBJECT_DETECTION),
    (r"ForDepthEstimation", Task.DEPTH_ESTIMATION),
    (r"ForMaskedImageModeling", Task.MASKED_IMAGE_MODELING),
    (r"ForImageAndTextRetrieval", Task.IMAGE_TEXT_MATCHING),
    (r"For(TextToSpeech|SpeechToSpeech)", Task.SPEECH_GENERATION),
    (
        r"(For(ConditionalGeneration|Generation|VisionText2Text|TextToText|SpeechToText|ProteinText2Text)"
        r"|EncoderDecoderModel|MTModel)",
        Task.CONDITIONAL_GENERATION,
    ),
    (r"(ForCausalLM|LMHeadModel|ModelWithLMHead|GenerationDecoder|ForCausalImageModeling)", Task.CAUSAL_LM),
)
_TASKS = tuple((re.compile(f"{ending}$"), task) for ending, task in _ENDINGS)


def task_of(name: str, labels: Collection[str]) -> Task:
    """The task of a class with this name whose forward takes these label arguments."""
    for ending, task in _TASKS:
        if ending.search(name):
            return task
    if "start_positions" in labels:
        return Task.QUESTION_ANSWERING
    return Task.OTHER
