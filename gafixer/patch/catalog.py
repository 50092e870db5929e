"""Every patch there is."""

from __future__ import annotations

from gafixer.patch.records import Group, Patch

__all__ = ["GROUPS"]

_TRAINER = "transformers.trainer"
_WRAPPERS = "gafixer.patch.trainer"


def _trainer(
    name: str,
    reason: str,
    parameters: str,
    names: str = "",
    since: tuple[int, int] | None = None,
    until: tuple[int, int] | None = None,
) -> Patch:
    return Patch(
        _TRAINER,
        "Trainer",
        name,
        f"{_WRAPPERS}:{name}",
        reason,
        ("self", *parameters.split()),
        tuple(names.split()),
        since,
        until,
    )


_PLAIN_REASON = "heads drop num_items_in_batch, or honour it in one branch only"

GROUPS = (
    Group(
        _TRAINER,
        (
            _trainer(
                "training_step",
                "means of microbatches are averaged, not the window's items; some releases divide twice, some never",
                "model inputs",
                "compute_loss accelerator backward",
            ),
            _trainer("compute_loss", "the rank factor goes by signatures, not by what the loss did", "model inputs"),
            _trainer(
                "get_batch_samples",
                "the count is of labels that the loss may not score, and on one rank or over all by guess",
                "epoch_iterator num_batches",
                since=(4, 46),
            ),
            _trainer(
                "_inner_training_loop",
                "it reads one microbatch at a time, or windows other than those it steps at",
                "args",
                "get_train_dataloader training_step",
                until=(4, 47),
            ),
            Patch(
                _TRAINER,
                None,
                "skip_first_batches",
                f"{_WRAPPERS}:skip_first_batches",
                "a resumed epoch is read ahead, too",
                ("dataloader", "num_batches"),
                until=(4, 47),
                foreign="accelerate.data_loader",
            ),
            _trainer("prediction_step", "evaluation keeps the loss of the head as it is", "model inputs"),
        ),
    ),
    Group(
        "transformers.modeling_utils",
        (
            Patch(
                "transformers.modeling_utils",
                "PreTrainedModel",
                "__call__",
                "gafixer.patch.plain:call",
                _PLAIN_REASON,
                foreign="torch.nn.modules.module",
            ),
        ),
    ),
    Group(
        "peft.peft_model",
        (
            Patch(
                "peft.peft_model",
                "PeftModel",
                "__call__",
                "gafixer.patch.plain:call",
                _PLAIN_REASON,
                foreign="torch.nn.modules.module",
            ),
        ),
    ),
)
