"""Fit a regression on full batches; the last window of an epoch has fewer of them."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_samples(count=21, features=6, targets=3):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(count, features, generator=generator, dtype=torch.float64)
    weight = torch.randn(features, targets, generator=generator, dtype=torch.float64)
    return TensorDataset(inputs, inputs.sin() @ weight)


def build(batch_size=2):
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).double()
    loader = DataLoader(make_samples(), batch_size=batch_size, drop_last=True)
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
    for i, (inputs, targets) in enumerate(loader):
        loss = F.mse_loss(model(inputs), targets, reduction="sum")
        num_items += targets.numel()
        loss.backward()
        if (i + 1) % steps == 0:
            _divide_gradients(model.parameters(), num_items)
            num_items = 0
            optimizer.step()
            optimizer.zero_grad()
    if len(loader) % steps != 0:
        _divide_gradients(model.parameters(), num_items)
        optimizer.step()
        optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    model, loader, optimizer = build()
    train(model, loader, optimizer)


if __name__ == "__main__":
    main()
