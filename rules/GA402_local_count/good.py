"""Train a tagger on several processes: torchrun --nproc-per-node 2 <this file>."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, DistributedSampler

VOCABULARY, TAGS = 50, 5


class Tagger(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, hidden)
        self.head = nn.Linear(hidden, TAGS)

    def forward(self, tokens):
        return self.head(self.embedding(tokens).tanh())


def make_sentences(count=20, longest=12):
    generator = torch.Generator().manual_seed(0)
    sentences = []
    for length in torch.randint(1, longest + 1, (count,), generator=generator).tolist():
        tokens = torch.randint(1, VOCABULARY, (length,), generator=generator)
        sentences.append((tokens, tokens % TAGS))
    return sentences


def collate(sentences):
    tokens, tags = zip(*sentences)
    tokens = pad_sequence(tokens, batch_first=True)
    tags = pad_sequence(tags, batch_first=True, padding_value=-100)
    return tokens, tags


def build(batch_size=2):
    model = DistributedDataParallel(Tagger().double())
    sentences = make_sentences()
    sampler = DistributedSampler(sentences, shuffle=False)
    loader = DataLoader(sentences, batch_size=batch_size, sampler=sampler, collate_fn=collate)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, loader, optimizer


def _divide_gradients(parameters, num_items):
    """Divide the gradients of a window, which are averaged over the ranks, by its items."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        raise RuntimeError("no gradients to divide: they were stepped or cleared before")
    total = torch.as_tensor(num_items, device=gradients[0].device).clone()
    ranks = 1
    if dist.is_initialized():
        dist.all_reduce(total)
        ranks = dist.get_world_size()
    divisor = float(total) / ranks or 1.0
    for gradient in gradients:
        gradient.div_(divisor)


def train(model, loader, optimizer, steps=4):
    criterion = nn.CrossEntropyLoss(ignore_index=-100, reduction="sum")
    optimizer.zero_grad()
    num_items = 0
    for i, (tokens, tags) in enumerate(loader):
        last = (i + 1) % steps == 0 or i + 1 == len(loader)
        with contextlib.nullcontext() if last else model.no_sync():
            logits = model(tokens)
            loss = criterion(logits.flatten(0, 1), tags.flatten())
            num_items += tags.ne(-100).sum()
            loss.backward()
        if last:
            _divide_gradients(model.parameters(), num_items)
            num_items = 0
            optimizer.step()
            optimizer.zero_grad()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model, loader, optimizer = build()
    train(model, loader, optimizer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
