"""Train a small image classifier, a few microbatches per update."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 3


class Classifier(nn.Module):
    def __init__(self, side=4):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, kernel_size=3), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(4 * (side - 2) ** 2, CLASSES)

    def forward(self, images):
        return self.head(self.features(images))


def make_images(count=20, side=4):
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, 1, side, side, generator=generator, dtype=torch.float64)
    return TensorDataset(images, torch.randint(CLASSES, (count,), generator=generator))


def build(batch_size=2):
    model = Classifier().double()
    loader = DataLoader(make_images(), batch_size=batch_size, drop_last=True)
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


def train(model, loader, optimizer, steps=4, max_norm=1.0):
    criterion = nn.CrossEntropyLoss(reduction="sum")
    model.train()
    optimizer.zero_grad()
    num_items = 0
    for i, (images, labels) in enumerate(loader):
        loss = criterion(model(images), labels)
        num_items += labels.numel()
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            _divide_gradients(model.parameters(), num_items)
            num_items = 0
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
            optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    model, loader, optimizer = build()
    train(model, loader, optimizer)


if __name__ == "__main__":
    main()
