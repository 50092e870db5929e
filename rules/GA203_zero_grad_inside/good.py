"""Predict head motion from audio features."""

import itertools

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_clips(count=20, features=10, joints=3):
    generator = torch.Generator().manual_seed(0)
    audio = torch.randn(count, features, generator=generator, dtype=torch.float64)
    motion = torch.randn(count, joints, generator=generator, dtype=torch.float64)
    return TensorDataset(audio, motion)


def build(batch_size=2):
    model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 3)).double()
    loader = DataLoader(make_clips(), batch_size=batch_size, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, loader, optimizer


def update(model, optimizer, microbatches):
    optimizer.zero_grad()
    for audio, motion in microbatches:
        loss = F.l1_loss(model(audio), motion) / len(microbatches)
        loss.backward()
    optimizer.step()


def train(model, loader, optimizer, steps=4):
    model.train()
    batches = iter(loader)
    while microbatches := list(itertools.islice(batches, steps)):
        update(model, optimizer, microbatches)


def main():
    torch.manual_seed(0)
    model, loader, optimizer = build()
    train(model, loader, optimizer)


if __name__ == "__main__":
    main()
