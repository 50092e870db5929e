"""Overrides of Trainer and heads in the spellings that people write, all of them wrong under gradient accumulation.

Each is the text of a module that defines `build() -> (model, trainer class, arguments of its own)`. What the window's
loss should be is named beside it: a function of `tests.codemod.trainer_run`.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OVERRIDES", "Override"]

_HEAD = """\
import itertools

import torch
import torch.nn.functional as F
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel, Trainer
from transformers.modeling_outputs import TokenClassifierOutput


class TinyConfig(PretrainedConfig):
    model_type = "tiny"
    vocabulary = 50
    tags = 5
    hidden = 16


class TinyForTokenClassification(PreTrainedModel):
    config_class = TinyConfig

    def __init__(self, config):
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary, config.hidden)
        self.classifier = nn.Linear(config.hidden, config.tags)
        self.post_init()
"""
#: Trainer of 4.46 hands the count to a forward only where it has `**loss_kwargs`.
_HONOURS = """
    def forward(self, input_ids, labels=None, **loss_kwargs):
        logits = self.classifier(self.embedding(input_ids).tanh())
        loss = None
        if labels is not None:
            num_items = loss_kwargs.get("num_items_in_batch")
            reduction = "mean" if num_items is None else "sum"
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction=reduction)
            if num_items is not None:
                loss = loss / num_items
        return TokenClassifierOutput(loss=loss, logits=logits)


"""
_BUILD = """


def build():
    return TinyForTokenClassification(TinyConfig(num_labels=5)), Tuned, {}
"""


@dataclass(frozen=True, slots=True)
class Override:
    """A module and the name of the loss that a window of it should have.

    `runs` says that it runs as it is (it takes what Trainer hands over), `first` the release from which on it can be
    mended by itself. What is `called` by Trainer can't be where Accelerate divides once more (5.2 to 5.5.3).
    """

    source: str
    reference: str = "mean"
    runs: bool = True
    first: str = "4.46"
    called: bool = False


def _trainer(
    body: str, reference: str = "mean", *, runs: bool = True, first: str = "4.46", collated: str = ""
) -> Override:
    collator = f"def collated(batch):\n{collated}\n\n" if collated else ""
    return Override(f"{_HEAD}{_HONOURS}{collator}class Tuned(Trainer):\n{body}{_BUILD}", reference, runs, first)


def _head(body: str, reference: str = "mean", base: str = "") -> Override:
    build = _BUILD.replace("Tuned", "Trainer")
    head = _HEAD.replace("class TinyFor", f"{base}class TinyFor")
    if base:
        head = head.replace("Classification(PreTrainedModel)", "Classification(Scored)")
    return Override(f"{head}{body}{build}", reference, first="4.47", called=True)


OVERRIDES = {
    "local_criterion": _trainer("""\
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        loss = criterion(outputs.logits.flatten(0, 1), labels.flatten())
        return (loss, outputs) if return_outputs else loss
""", "smoothed"),
    "returned_at_once": _trainer("""\
    def compute_loss(
        self,
        model,
        inputs,
        return_outputs=False,
        num_items_in_batch=None,
    ):
        labels = inputs.pop("labels")
        logits = model(**inputs).logits
        if return_outputs:
            return F.cross_entropy(logits.view(-1, 5), labels.view(-1)), {"loss": None, "logits": logits}
        return F.cross_entropy(logits.view(-1, 5), labels.view(-1))
"""),
    "criterion_of_the_object": _trainer("""\
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.criterion = nn.CrossEntropyLoss(ignore_index=-100, label_smoothing=0.1)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(input_ids=inputs["input_ids"])
        loss = self.criterion(outputs.logits.flatten(0, 1), inputs["labels"].flatten())
        return (loss, outputs) if return_outputs else loss
""", "smoothed"),
    "swallowed": _trainer("""\
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs["labels"].view(-1)
        outputs = model(input_ids=inputs["input_ids"])
        loss = F.cross_entropy(outputs.logits.view(-1, 5), labels)
        return (loss, outputs) if return_outputs else loss
"""),
    "old_signature": _trainer("""\
    def compute_loss(self, model, inputs, return_outputs=False):
        labels = inputs.get("labels")
        outputs = model(input_ids=inputs["input_ids"])
        logits = outputs.get("logits")
        loss_fct = nn.CrossEntropyLoss()
        loss = loss_fct(logits.view(-1, self.model.config.tags), labels.view(-1))
        return (loss, outputs) if return_outputs else loss
""", runs=False),
    "old_signature_to_super": _trainer("""\
    def compute_loss(self, model, inputs, return_outputs=False):
        return super().compute_loss(model, inputs, return_outputs)
""", runs=False),
    "loss_of_the_model": _trainer("""\
    def compute_loss(self, model, inputs, return_outputs=False):
        return model(
            input_ids=inputs["input_ids"],
            labels=inputs["labels"],
        ).loss

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        with torch.no_grad():
            return self.compute_loss(model, self._prepare_inputs(inputs)).detach(), None, None
""", runs=False),
    "output_of_the_model": _trainer("""\
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        loss = outputs.loss
        return (loss, outputs) if return_outputs else loss
"""),
    "masked_quotient": _trainer("""\
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(input_ids=inputs["input_ids"])
        labels = inputs["labels"]
        mask = labels != -100
        nll = F.cross_entropy(outputs.logits.transpose(1, 2), labels, reduction="none")
        loss = (nll * mask).sum() / mask.sum().clamp(min=1)
        return (loss, outputs) if return_outputs else loss
"""),
    "mean_of_the_kept": _trainer("""\
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(input_ids=inputs["input_ids"])
        labels = inputs["labels"]
        keep = labels.ne(-100)
        nll = F.cross_entropy(outputs.logits.transpose(1, 2), labels, reduction="none")
        return (nll[keep].mean(), outputs) if return_outputs else nll[keep].mean()
"""),
    "two_terms": _trainer("""\
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        labels = inputs["labels"]
        smoothed = F.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1)
        loss = 0.7 * outputs.loss + 0.3 * smoothed
        return (loss, outputs) if return_outputs else loss
""", "mixed"),
    "by_sequence": _trainer("""\
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        outputs = model(input_ids=inputs["input_ids"])
        labels = inputs["labels"]
        nll = F.cross_entropy(outputs.logits.transpose(1, 2), labels, reduction="none")
        loss = (nll.sum(1) / labels.ne(-100).sum(1)).mean()
        return (loss, outputs) if return_outputs else loss
""", "sequences", first="4.48"),
    "padded_with_another_label": _trainer("""\
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.criterion = nn.CrossEntropyLoss(ignore_index=5)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = self.criterion(outputs.logits.view(-1, 5), labels.view(-1))
        return (loss, outputs) if return_outputs else loss
""", collated="""\
    labels = batch.pop("labels")
    return {**batch, "labels": labels.masked_fill(labels == -100, 5)}
"""),
    "labels_under_another_key": _trainer("""\
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.label_names = ["target_tags"]

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        tags = inputs.pop("target_tags")
        logits = model(**inputs).logits
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten().to(logits.device), ignore_index=-1)
        return (loss, {"logits": logits}) if return_outputs else loss
""", collated="""\
    labels = batch.pop("labels")
    return {**batch, "target_tags": labels.masked_fill(labels == -100, -1)}
"""),
    "mask_of_the_collator": _trainer("""\
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(input_ids=inputs["input_ids"])
        mask = inputs["loss_mask"].float()
        nll = F.cross_entropy(outputs.logits.transpose(1, 2), inputs["labels"], reduction="none")
        loss = (nll * mask).sum() / mask.sum().clamp(min=1)
        return (loss, outputs) if return_outputs else loss
""", collated="""\
    labels = batch.pop("labels")
    return {**batch, "labels": labels.clamp(min=0), "loss_mask": labels.ne(-100)}
"""),
    "window_without_a_count": _trainer("""\
    def get_batch_samples(self, epoch_iterator, num_batches, *args):
        batch_samples = list(itertools.islice(epoch_iterator, num_batches))
        return batch_samples, None
""", first="4.48"),
    "class_weights": _trainer("""\
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.get("labels")
        outputs = model(input_ids=inputs["input_ids"])
        logits = outputs.logits.float()
        loss_fct = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], device=model.device))
        loss = loss_fct(logits.view(-1, 5), labels.view(-1))
        return (loss, outputs) if return_outputs else loss
""", "weighted"),
    "class_weights_of_the_object": _trainer("""\
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.class_weights = torch.arange(1.0, 6.0, dtype=torch.float64)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs["labels"]
        outputs = model(input_ids=inputs["input_ids"])
        weight = self.class_weights.to(labels.device)
        loss = F.cross_entropy(outputs.logits.view(-1, 5), labels.view(-1), weight=weight)
        return (loss, outputs) if return_outputs else loss
""", "weighted"),
    "own_step": _trainer("""\
    def training_step(self, model, inputs):
        model.train()
        inputs = self._prepare_inputs(inputs)
        with self.compute_loss_context_manager():
            loss = self.compute_loss(model, inputs)
        self.accelerator.backward(loss)
        return loss.detach()
""", runs=False),
    "watched_step": _trainer("""\
    def training_step(self, model, inputs):
        loss = super().training_step(model, inputs)
        self.last = loss
        return loss
""", runs=False),
    "loss_function": Override(f'''{_HEAD}{_HONOURS}def smoothed_loss(outputs, labels, num_items_in_batch=None):
    logits = outputs.logits if hasattr(outputs, "logits") else outputs["logits"]
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1)


class Tuned(Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, compute_loss_func=smoothed_loss, **kwargs)
{_BUILD}''', "smoothed",
        called=True,
    ),
    "own_criterion": _head("""
    def forward(self, input_ids, labels=None, **kwargs):
        logits = self.classifier(self.embedding(input_ids).tanh())

        loss = None
        if labels is not None:
            if self.config.tags == 1:
                loss_fct = nn.MSELoss()
                loss = loss_fct(logits.squeeze(), labels.squeeze())
            else:
                loss_fct = nn.CrossEntropyLoss()
                loss = loss_fct(logits.view(-1, self.config.tags), labels.view(-1))

        return TokenClassifierOutput(loss=loss, logits=logits)
"""),
    "tuple_output": _head("""
    def forward(self, input_ids, labels=None, return_dict=True, **kwargs):
        logits = self.classifier(self.embedding(input_ids).tanh())
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten()) if labels is not None else None
        if not return_dict:
            output = (logits,)
            return ((loss,) + output) if loss is not None else output
        return TokenClassifierOutput(loss=loss, logits=logits)
"""),
    "library_loss": _head("""
    def forward(self, input_ids, labels=None, **kwargs):
        logits = self.classifier(self.embedding(input_ids).tanh())
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, self.config)
        return TokenClassifierOutput(loss=loss, logits=logits)
"""),
    "in_the_base_class": _head("""
    def forward(self, input_ids, labels=None, **kwargs):
        logits = self.classifier(self.embedding(input_ids).tanh())
        loss = None if labels is None else self.score(logits, labels)
        return TokenClassifierOutput(loss=loss, logits=logits)
""", base="""\
class Scored(PreTrainedModel):
    def score(self, logits, labels):
        loss_fct = nn.CrossEntropyLoss()
        return loss_fct(logits.flatten(0, 1), labels.flatten())


"""),
}  # fmt: skip
