"""One update over rows of 1, 2, 3, ... targets with Accelerate; the figures are those of Accelerate's guide."""

import os
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

STEPS, ROWS = 2, 4


def collate(rows):
    inputs = pad_sequence(rows, batch_first=True, padding_value=-100.0)
    labels = pad_sequence([row.remainder(2) for row in rows], batch_first=True, padding_value=-100.0)
    return inputs[..., None], labels.long()


def train(accelerator, model, loader, optimizer):
    criterion = nn.CrossEntropyLoss()
    for inputs, labels in loader:
        with accelerator.accumulate(model):
            loss = criterion(model(inputs).flatten(0, 1), labels.flatten())
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()


def main():
    set_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=STEPS, cpu=True)
    rows = [torch.arange(1.0, count + 2) for count in range(ROWS * STEPS * accelerator.num_processes)]
    model = nn.Linear(1, 2, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.08)
    model, optimizer, loader = accelerator.prepare(
        model, optimizer, DataLoader(rows, batch_size=ROWS, collate_fn=collate)
    )
    train(accelerator, model, loader, optimizer)
    if accelerator.is_main_process:
        print(*(f"{value:.4f}" for value in accelerator.unwrap_model(model).weight.flatten().tolist()))
    if accelerator.num_processes > 1:
        accelerator.wait_for_everyone()
        sys.stdout.flush()
        os._exit(0)  # torch's DDP can end with Python's lock held, waiting for a gloo thread that wants it


if __name__ == "__main__":
    main()
