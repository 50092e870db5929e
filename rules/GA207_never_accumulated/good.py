"""Fit a critic to returns that were drawn beforehand."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_returns(count=20, features=6):
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(count, features, generator=generator, dtype=torch.float64)
    return TensorDataset(states, states.tanh().sum(1, keepdim=True))


def endless(loader):
    while True:
        yield from loader


def build(batch_size=2):
    critic = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1)).double()
    loader = DataLoader(make_returns(), batch_size=batch_size, drop_last=True)
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    return critic, loader, optimizer


def train(critic, loader, optimizer, updates=5, steps=4):
    critic.train()
    batches = endless(loader)
    for _ in range(updates):
        for _ in range(steps):
            states, returns = next(batches)
            loss = F.mse_loss(critic(states), returns) / steps
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    critic, loader, optimizer = build()
    train(critic, loader, optimizer)


if __name__ == "__main__":
    main()
