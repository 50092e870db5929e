"""Train a mask predictor on batches too big for the device: each goes through in slices."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class MaskNet(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.body = nn.Conv2d(1, channels, kernel_size=3, padding=1)
        self.head = nn.Conv2d(channels, 1, kernel_size=1)

    def forward(self, images):
        return self.head(self.body(images).relu())


def make_scans(count=22, side=5):
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, 1, side, side, generator=generator, dtype=torch.float64)
    return TensorDataset(images, (images > 0.5).double())


def build(batch_size=8):
    model = MaskNet().double()
    loader = DataLoader(make_scans(), batch_size=batch_size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, loader, optimizer


def train(model, loader, optimizer, slice_size=3, max_norm=0.05):
    model.train()
    for images, masks in loader:
        for x, y in zip(images.split(slice_size), masks.split(slice_size)):
            loss = F.binary_cross_entropy_with_logits(model(x), y, reduction="sum")
            (loss / masks.numel()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    model, loader, optimizer = build()
    train(model, loader, optimizer)


if __name__ == "__main__":
    main()
