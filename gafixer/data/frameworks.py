"""The names by which training code is known: frameworks, optimizers, schedulers, scalers."""

from __future__ import annotations

import re

__all__ = [
    "ACCELERATOR",
    "CALLS_WHAT_IT_IS_GIVEN",
    "CLIPS",
    "COMPOSER_COUNT",
    "COMPOSER_EXACT",
    "COMPOSER_MODELS",
    "COMPOSER_SIZE",
    "ENGINE",
    "FABRIC",
    "FRAMEWORK_CLASSES",
    "IGNITE_STEPS",
    "IGNITE_STEP_FUNCTIONS",
    "IGNITE_TRAINER",
    "IMPLICIT",
    "IMPLICIT_WORDS",
    "OPTIMIZER",
    "RANKS",
    "SAME_ITEMS",
    "SCALER",
    "SCALES_GRADIENTS",
    "SCHEDULER",
    "STEPS_NAME",
    "SUMS_OVER_RANKS",
    "WRAPPERS",
]

ACCELERATOR = re.compile(r"accelerator\b|accelerate\.", re.IGNORECASE)
FABRIC = re.compile(r"\bfabric\b|fabric\.Fabric", re.IGNORECASE)
ENGINE = re.compile(r"engine|deepspeed|(^|[._])model|strategy|critic|actor|\bnet\b", re.IGNORECASE)
OPTIMIZER = re.compile(
    r"optim|(^|[._\[])opts?(_\w+|\d)?\b|_opt\b|\bopt_|torch\.optim\.|adam|\bsgd\b|muon", re.IGNORECASE
)
SCHEDULER = re.compile(r"sched|(^|[._])lrs?\b|lr_sch|^(?!.*optim).*warmup|lr_decay|lr_adjust", re.IGNORECASE)
SCALER = re.compile(r"scaler|\bamp\b|GradScaler", re.IGNORECASE)

CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_gradients", "clip_grads_with_norm_"})

#: Methods of an optimizer that scale all gradients; of those that divide, the argument is a divisor.
SCALES_GRADIENTS = re.compile(r"^(?P<by>multiply|mul|scale|rescale|divide|div|normali[sz]e)_(all_)?grad(ient)?s?_?$")

#: What people call the number of microbatches of a window.
STEPS_NAME = re.compile(
    r"accum|grad_?acc|\bgas\b|acc_steps|accu_steps|acc_iter|n_acc\b|\bacc_|micro_?steps|update_freq|iter_size"
    r"|num_micro|n_micro|micro_?batches|virtual_batch|backward_passes_per_step|steps_per_update|grad_steps",
    re.IGNORECASE,
)

#: Classes that are a framework: what their own methods divide is known as data, not read.
FRAMEWORK_CLASSES = frozenset({"Accelerator", "Fabric", "DeepSpeedEngine", "PipelineEngine"})

#: The number of ranks, as a value or as a call.
RANKS = re.compile(r"world_?size|num_processes|dp_size|n_gpus?\b|num_gpus?\b|nranks|get_world_size", re.IGNORECASE)

#: Calls that sum a figure over all ranks.
SUMS_OVER_RANKS = re.compile(r"all_?reduce|all_?gather|\bgather|\breduce$|reduce_sum|sync_", re.IGNORECASE)

#: What gives back the model that it is given, in another coat.
WRAPPERS = frozenset(
    {
        "DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "DDP", "FSDP", "fully_shard", "compile",
        "deepcopy", "copy", "get_peft_model", "wrap_model", "ParallelModel", "convert_sync_batchnorm",
    }
)  # fmt: skip

#: Methods and functions that change the shape, type or device of a tensor but not its items.
SAME_ITEMS = frozenset(
    {
        "view", "reshape", "flatten", "squeeze", "unsqueeze", "contiguous", "float", "double", "half", "bfloat16", "to",
        "cuda", "cpu", "type", "type_as", "clone", "transpose", "permute", "expand", "expand_as", "long", "int", "bool",
        "requires_grad_", "view_as", "swapaxes", "movedim", "unflatten", "nan_to_num", "clamp", "clamp_min",
        "clamp_max", "clip", "max", "maximum", "minimum", "retain_grad", "as_tensor", "tensor", "where", "abs",
        "clamp_", "item_", "to_local", "full_tensor", "redistribute", "as_subclass", "local_value",
    }
)  # fmt: skip

#: ignite: what makes a trainer of a model, an optimizer and a loss, what makes its step alone, and the argument that is
#: the number of steps. Both take the three first, and divide by the last.
IGNITE_TRAINER = "create_supervised_trainer"
IGNITE_STEP_FUNCTIONS = re.compile(r"^supervised_training_step(_amp|_apex|_tpu)?$")
IGNITE_STEPS = "gradient_accumulation_steps"

#: Composer: base classes of its models, what splits a batch into microbatches, and what makes that exact for tokens.
COMPOSER_MODELS = frozenset({"ComposerModel", "HuggingFaceModel", "ComposerClassifier"})
COMPOSER_SIZE, COMPOSER_COUNT = "device_train_microbatch_size", "grad_accum"
COMPOSER_EXACT = "accumulate_train_batch_on_tokens"

#: What is made of functions that it calls later.
CALLS_WHAT_IT_IS_GIVEN = frozenset({"Engine"})

#: Text of code that trains though nothing in it is called backward.
IMPLICIT_WORDS = (IGNITE_TRAINER, "supervised_training_step", "HuggingFaceModel(")
IMPLICIT = re.compile(rf"\b{IGNITE_TRAINER}\b|\bsupervised_training_step|\bHuggingFaceModel\(")
