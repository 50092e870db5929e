"""Train a denoiser with Accelerate."""

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Denoiser(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(channels, 16), nn.SiLU(), nn.Linear(16, channels))

    def forward(self, noisy):
        return self.net(noisy)


def make_latents(count=16, channels=8):
    generator = torch.Generator().manual_seed(0)
    latents = torch.randn(count, channels, generator=generator, dtype=torch.float64)
    noise = torch.randn(count, channels, generator=generator, dtype=torch.float64)
    return TensorDataset(latents + noise, noise)


def build(batch_size=2, steps=4):
    accelerator = Accelerator(gradient_accumulation_steps=steps, cpu=True)
    model = Denoiser().double()
    loader = DataLoader(make_latents(), batch_size=batch_size, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, loader, optimizer = accelerator.prepare(model, loader, optimizer)
    return accelerator, model, loader, optimizer


def train(accelerator, model, loader, optimizer, max_norm=1.0):
    model.train()
    for noisy, noise in loader:
        with accelerator.accumulate(model):
            loss = F.mse_loss(model(noisy), noise)
            loss = loss / accelerator.gradient_accumulation_steps
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
            optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    accelerator, model, loader, optimizer = build()
    train(accelerator, model, loader, optimizer)


if __name__ == "__main__":
    main()
