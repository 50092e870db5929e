"""Pretrain a tiny mixture of experts; the router has a balance loss of its own."""

import itertools

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

VOCABULARY = 40


class Experts(nn.Module):
    def __init__(self, hidden=12, experts=4):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, hidden)
        self.router = nn.Linear(hidden, experts)
        self.experts = nn.Linear(hidden, experts * hidden)
        self.head = nn.Linear(hidden, VOCABULARY)

    def forward(self, tokens):
        """Return the logits and the balance loss, which is 1 when all experts are used equally."""
        hidden = self.embedding(tokens)
        gates = self.router(hidden).softmax(-1)
        outputs = self.experts(hidden).unflatten(-1, (gates.size(-1), -1))
        mixed = (gates.unsqueeze(-1) * outputs).sum(-2).tanh()
        usage = gates.flatten(0, 1).mean(0)
        return self.head(mixed), gates.size(-1) * usage.square().sum()


def make_texts(count=20, longest=12):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, longest + 1, (count,), generator=generator).tolist()
    return [torch.randint(1, VOCABULARY, (length,), generator=generator) for length in lengths]


def collate(texts):
    tokens = pad_sequence([text[:-1] for text in texts], batch_first=True)
    labels = pad_sequence([text[1:] for text in texts], batch_first=True, padding_value=-100)
    return tokens, labels


def build(batch_size=2):
    model = Experts().double()
    loader = DataLoader(make_texts(), batch_size=batch_size, collate_fn=collate)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, loader, optimizer


def train(model, loader, optimizer, steps=4, balance_weight=0.5):
    batches = iter(loader)
    while window := list(itertools.islice(batches, steps)):
        num_items = sum(labels.ne(-100).sum() for _, labels in window).clamp(min=1)
        for tokens, labels in window:
            logits, balance = model(tokens)
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
            loss = (loss + balance_weight * balance) / num_items
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    model, loader, optimizer = build()
    train(model, loader, optimizer)


if __name__ == "__main__":
    main()
