"""Fine-tune a tagger on sentences of different lengths; padding carries the label -100."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

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
    model = Tagger().double()
    loader = DataLoader(make_sentences(), batch_size=batch_size, collate_fn=collate)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, loader, optimizer


def train(model, loader, optimizer, steps=4, max_norm=1.0):
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    optimizer.zero_grad()
    for i, (tokens, tags) in enumerate(loader):
        logits = model(tokens)
        loss = criterion(logits.flatten(0, 1), tags.flatten())
        loss = loss / steps
        loss.backward()
        # The last window of an epoch may be shorter.
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
            optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    model, loader, optimizer = build()
    train(model, loader, optimizer)


if __name__ == "__main__":
    main()
