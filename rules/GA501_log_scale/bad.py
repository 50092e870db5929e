"""Fit a surrogate model and report its loss after every update."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_designs(count=20, features=5):
    generator = torch.Generator().manual_seed(0)
    designs = torch.randn(count, features, generator=generator, dtype=torch.float64)
    return TensorDataset(designs, designs.square().sum(1, keepdim=True))


def endless(loader):
    while True:
        yield from loader


def build(batch_size=2):
    model = nn.Sequential(nn.Linear(5, 16), nn.Softplus(), nn.Linear(16, 1)).double()
    loader = DataLoader(make_designs(), batch_size=batch_size, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return model, loader, optimizer


def train(model, loader, optimizer, updates=5, steps=4):
    history = []
    batches = endless(loader)
    for update in range(updates):
        total = 0.0
        for _ in range(steps):
            designs, values = next(batches)
            loss = F.mse_loss(model(designs), values) / steps
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        history.append(total / steps)
        print(f"update {update}: loss {history[-1]:.4f}")
    return history


def main():
    torch.manual_seed(0)
    model, loader, optimizer = build()
    train(model, loader, optimizer)


if __name__ == "__main__":
    main()
