"""Fit a forecaster for a few epochs."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Forecaster(nn.Module):
    def __init__(self, past=8, future=2):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(past, 16), nn.ReLU(), nn.Linear(16, future))

    def forward(self, series):
        return self.net(series)


def make_series(count=20, past=8, future=2):
    generator = torch.Generator().manual_seed(0)
    series = torch.randn(count, past + future, generator=generator, dtype=torch.float64).cumsum(1)
    return TensorDataset(series[:, :past], series[:, past:])


def build(batch_size=2):
    model = Forecaster().double()
    loader = DataLoader(make_series(), batch_size=batch_size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return model, loader, optimizer


def train(model, loader, optimizer, epochs=3, steps=4):
    model.train()
    optimizer.zero_grad()
    for _ in range(epochs):
        for i, (past, future) in enumerate(loader):
            loss = F.smooth_l1_loss(model(past), future) / steps
            loss.backward()
            if (i + 1) % steps == 0:
                optimizer.step()
                optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    model, loader, optimizer = build()
    train(model, loader, optimizer)


if __name__ == "__main__":
    main()
