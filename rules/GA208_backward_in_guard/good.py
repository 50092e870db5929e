"""Fit a rating model; users rated different numbers of films, the others are masked."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Ratings(nn.Module):
    def __init__(self, users=20, films=8, hidden=4):
        super().__init__()
        self.users = nn.Embedding(users, hidden)
        self.films = nn.Linear(hidden, films)

    def forward(self, users):
        return self.films(self.users(users))


def make_ratings(users=20, films=8):
    generator = torch.Generator().manual_seed(0)
    ratings = torch.randn(users, films, generator=generator, dtype=torch.float64)
    rated = torch.rand(users, films, generator=generator) < torch.linspace(0.1, 0.9, users)[:, None]
    return TensorDataset(torch.arange(users), ratings, rated)


def build(batch_size=2):
    model = Ratings().double()
    loader = DataLoader(make_ratings(), batch_size=batch_size)
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
    model.train()
    optimizer.zero_grad()
    num_items = 0
    for i, (users, ratings, rated) in enumerate(loader):
        errors = (model(users) - ratings).square()
        loss = (errors * rated).sum()
        num_items += rated.sum()
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
