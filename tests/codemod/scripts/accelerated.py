"""Updates over uneven sentences with Accelerate; a window is the same sentences on one process and on several."""

import os
import sys

import torch
from accelerate import Accelerator
from torch import nn

WORDS, TAGS = 20, 3


def make_batches(count=12):
    generator = torch.Generator().manual_seed(0)
    batches = []
    for length in torch.randint(1, 9, (count,), generator=generator).tolist():
        words = torch.randint(WORDS, (2, length), generator=generator)
        tags = torch.where(torch.rand(2, length, generator=generator) < 0.6, words % TAGS, -100)
        batches.append((words, tags))
    return batches


def train(accelerator, model, batches, optimizer):
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    for words, tags in batches:
        with accelerator.accumulate(model):
            loss = criterion(model(words).flatten(0, 1), tags.flatten())
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad()


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=int(sys.argv[1]))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(WORDS, 4), nn.Tanh(), nn.Linear(4, TAGS)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model, optimizer = accelerator.prepare(model, optimizer)
    train(accelerator, model, make_batches()[accelerator.process_index :: accelerator.num_processes], optimizer)
    accelerator.print(*(f"{value:.10f}" for p in model.parameters() for value in p.flatten().tolist()))
    if accelerator.num_processes > 1:
        accelerator.wait_for_everyone()
        sys.stdout.flush()
        os._exit(0)  # torch's DDP can end with Python's lock held, waiting for a gloo thread that wants it


if __name__ == "__main__":
    main()
