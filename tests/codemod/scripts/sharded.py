"""Updates over uneven sentences, on one process or shared by several: a window is the same sentences either way."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

WORDS, TAGS = 20, 3


def make_batches(count=12):
    generator = torch.Generator().manual_seed(0)
    batches = []
    for length in torch.randint(1, 9, (count,), generator=generator).tolist():
        words = torch.randint(WORDS, (2, length), generator=generator)
        tags = torch.where(torch.rand(2, length, generator=generator) < 0.6, words % TAGS, -100)
        batches.append((words, tags))
    return batches


def build(kind):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(WORDS, 4), nn.Tanh(), nn.Linear(4, TAGS)).double()
    if kind == "ddp":
        return DistributedDataParallel(model)
    if kind == "fsdp":
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
        return fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return model


def whole(parameter):
    value = parameter.detach()
    return value.full_tensor() if isinstance(value, DTensor) else value


def train(model, batches, optimizer, steps):
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    for i, (words, tags) in enumerate(batches):
        loss = criterion(model(words).flatten(0, 1), tags.flatten())
        loss = loss / steps
        loss.backward()
        if (i + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def main():
    kind, rank, ranks = sys.argv[1], int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if ranks > 1:
        dist.init_process_group("gloo")
    model = build(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    if ranks > 1:
        train(model, make_batches()[rank::ranks], optimizer, steps=2)
    else:
        train(model, make_batches(), optimizer, steps=4)
    # Every rank takes part in putting a sharded tensor together.
    values = [value for p in model.parameters() for value in whole(p).flatten().tolist()]
    if rank == 0:
        print(" ".join(f"{value:.10f}" for value in values))
    if ranks > 1:
        dist.barrier()
        sys.stdout.flush()
        os._exit(0)  # torch's DDP can end with Python's lock held, waiting for a gloo thread that wants it


if __name__ == "__main__":
    main()
