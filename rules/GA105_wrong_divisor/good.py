"""Train a click model; rows are cheap, so every update sees several microbatches."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ClickModel(nn.Module):
    def __init__(self, features=10, hidden=12):
        super().__init__()
        self.hidden = nn.Linear(features, hidden)
        self.score = nn.Linear(hidden, 1)

    def forward(self, rows):
        return self.score(self.hidden(rows).relu()).squeeze(-1)


def make_rows(count=32, features=10):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(count, features, generator=generator, dtype=torch.float64)
    return TensorDataset(rows, (rows[:, 0] > 0.3).double())


def build(batch_size=3):
    model = ClickModel().double()
    loader = DataLoader(make_rows(), batch_size=batch_size, drop_last=True)
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
    criterion = nn.BCEWithLogitsLoss(reduction="sum")
    model.train()
    optimizer.zero_grad()
    num_items = 0
    for i, (rows, clicks) in enumerate(loader):
        loss = criterion(model(rows), clicks)
        num_items += clicks.numel()
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
