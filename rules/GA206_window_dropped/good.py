"""Train a sentence classifier; sentences are cut to the same length."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY, CLASSES = 30, 4


class SentenceClassifier(nn.Module):
    def __init__(self, hidden=12):
        super().__init__()
        self.embedding = nn.EmbeddingBag(VOCABULARY, hidden)
        self.head = nn.Linear(hidden, CLASSES)

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


def make_sentences(count=20, length=7):
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(VOCABULARY, (count, length), generator=generator)
    return TensorDataset(tokens, tokens[:, 0] % CLASSES)


def build(batch_size=2):
    model = SentenceClassifier().double()
    loader = DataLoader(make_sentences(), batch_size=batch_size)
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


def train(model, loader, optimizer, epochs=2, steps=4):
    criterion = nn.CrossEntropyLoss(reduction="sum")
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        num_items = 0
        for i, (tokens, labels) in enumerate(loader, start=1):
            loss = criterion(model(tokens), labels)
            num_items += labels.numel()
            loss.backward()
            if i % steps == 0 or i == len(loader):
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
