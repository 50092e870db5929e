"""Train a next-token model; padding carries the label -100."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

VOCABULARY = 40


class LanguageModel(nn.Module):
    def __init__(self, hidden=12):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, hidden)
        self.head = nn.Linear(hidden, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.embedding(tokens).tanh())


def make_texts(count=20, longest=12):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, longest + 1, (count,), generator=generator).tolist()
    return [torch.randint(1, VOCABULARY, (length,), generator=generator) for length in lengths]


def collate(texts):
    tokens = pad_sequence(texts, batch_first=True)
    labels = pad_sequence(texts, batch_first=True, padding_value=-100)
    return tokens, labels


def build(batch_size=2):
    model = LanguageModel().double()
    loader = DataLoader(make_texts(), batch_size=batch_size, collate_fn=collate)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, loader, optimizer


def _divide_gradients(parameters, num_items):
    """Divide the gradients of a window by its number of items."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        raise RuntimeError("no gradients to divide: they were stepped or cleared before")
    divisor = float(num_items) or 1.0
    for gradient in gradients:
        gradient.div_(divisor)


def train(model, loader, optimizer, steps=4):
    optimizer.zero_grad()
    num_items = 0
    for i, (tokens, labels) in enumerate(loader):
        logits = model(tokens)[:, :-1]
        loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum")
        num_items += labels.ne(-100).sum()
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            _divide_gradients(model.parameters(), num_items)
            num_items = 0
            optimizer.step()
            optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    model, loader, optimizer = build()
    train(model, loader, optimizer)


if __name__ == "__main__":
    main()
