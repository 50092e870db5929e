"""Train a tagger with Trainer: an override watches the loss."""

import tempfile

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
from transformers.modeling_outputs import TokenClassifierOutput


class TaggerConfig(PretrainedConfig):
    model_type = "tagger"
    vocabulary = 50
    tags = 5
    hidden = 16


class TaggerForTokenClassification(PreTrainedModel):
    config_class = TaggerConfig

    def __init__(self, config):
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary, config.hidden)
        self.classifier = nn.Linear(config.hidden, config.tags)
        self.post_init()

    def forward(self, input_ids, labels=None, **kwargs):
        logits = self.classifier(self.embedding(input_ids).tanh())
        loss = None
        if labels is not None:
            num_items = kwargs.get("num_items_in_batch")
            reduction = "mean" if num_items is None else "sum"
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction=reduction)
            if num_items is not None:
                loss = loss / num_items
        return TokenClassifierOutput(loss=loss, logits=logits)


class WatchingTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)
        self.last_loss = loss.detach()
        return (loss, outputs) if return_outputs else loss


def make_sentences(count=20, longest=12):
    generator = torch.Generator().manual_seed(0)
    sentences = []
    for length in torch.randint(1, longest + 1, (count,), generator=generator).tolist():
        tokens = torch.randint(1, TaggerConfig.vocabulary, (length,), generator=generator)
        sentences.append({"input_ids": tokens, "labels": tokens % TaggerConfig.tags})
    return sentences


def collate(sentences):
    return {
        "input_ids": pad_sequence([s["input_ids"] for s in sentences], batch_first=True),
        "labels": pad_sequence([s["labels"] for s in sentences], batch_first=True, padding_value=-100),
    }


def build():
    torch.manual_seed(0)
    return TaggerForTokenClassification(TaggerConfig()).double(), make_sentences()


def train(model, sentences, folder, steps=4, batch_size=2):
    arguments = TrainingArguments(
        folder,
        per_device_train_batch_size=batch_size,
        gradient_accumulation_steps=steps,
        num_train_epochs=1,
        max_grad_norm=0.0,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = WatchingTrainer(model, arguments, data_collator=collate, train_dataset=sentences)
    trainer.train()
    return trainer


def main():
    with tempfile.TemporaryDirectory() as folder:
        train(*build(), folder)


if __name__ == "__main__":
    main()
