"""Train an autoencoder with a warm-up that is counted in updates."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


def make_vectors(count=20, features=6):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, features, generator=generator, dtype=torch.float64)


def endless(loader):
    while True:
        yield from loader


def build(batch_size=2, warmup=4):
    model = nn.Sequential(nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 6)).double()
    loader = DataLoader(make_vectors(), batch_size=batch_size, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=warmup)
    return model, loader, optimizer, scheduler


def train(model, loader, optimizer, scheduler, updates=8, steps=4):
    model.train()
    batches = endless(loader)
    for _ in range(updates):
        for _ in range(steps):
            vectors = next(batches)
            loss = F.mse_loss(model(vectors), vectors) / steps
            loss.backward()
            scheduler.step()
        optimizer.step()
        optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    model, loader, optimizer, scheduler = build()
    train(model, loader, optimizer, scheduler)


if __name__ == "__main__":
    main()
