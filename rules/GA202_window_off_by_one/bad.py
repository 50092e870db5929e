"""Train a segmentation head; border pixels carry the label 255."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES, BORDER = 3, 255


def make_scenes(count=20, side=6):
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, 1, side, side, generator=generator, dtype=torch.float64)
    masks = torch.randint(CLASSES, (count, side, side), generator=generator)
    for mask, width in zip(masks, torch.randint(0, side, (count,), generator=generator).tolist()):
        mask[:, :width] = BORDER
    return TensorDataset(images, masks)


def build(batch_size=2):
    model = nn.Conv2d(1, CLASSES, kernel_size=3, padding=1).double()
    loader = DataLoader(make_scenes(), batch_size=batch_size)
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
    for i, (images, masks) in enumerate(loader):
        loss = F.cross_entropy(model(images), masks, ignore_index=BORDER, reduction="sum")
        num_items += masks.ne(BORDER).sum()
        loss.backward()
        if i % steps == 0 or i + 1 == len(loader):
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
