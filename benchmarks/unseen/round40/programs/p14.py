"""Transliteration with a convolutional encoder and an attention decoder.  Batches are
bucketed by length, gradients are accumulated until a character budget is reached."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

PAD, BOS = 0, 1
VOCAB = 30
BUCKETS = (6, 10)
BATCH_SIZE = {6: 10, 10: 6}
CHARS_PER_UPDATE = 220
UPDATES = 26


def make_corpus(count, rng):
    corpus = []
    for _ in range(count):
        n = rng.randint(3, 10)
        source = [rng.randint(2, VOCAB - 1) for _ in range(n)]
        target = [(c * 7 + 3) % (VOCAB - 2) + 2 for c in reversed(source)]
        corpus.append((source, target))
    return corpus


class BucketedBatches:
    def __init__(self, corpus, rng):
        self.rng = rng
        self.pools = {b: [] for b in BUCKETS}
        for pair in corpus:
            bucket = next(b for b in BUCKETS if len(pair[0]) <= b)
            self.pools[bucket].append(pair)

    def _tensorize(self, pairs, width):
        def pad(seq):
            return seq + [PAD] * (width - len(seq))

        source = torch.tensor([pad(s) for s, _ in pairs])
        target = torch.tensor([pad(t) for _, t in pairs])
        return source, target

    def __iter__(self):
        while True:
            batches = []
            for width, pool in self.pools.items():
                self.rng.shuffle(pool)
                size = BATCH_SIZE[width]
                for i in range(0, len(pool) - size + 1, size):
                    batches.append((pool[i:i + size], width))
            self.rng.shuffle(batches)
            for pairs, width in batches:
                yield self._tensorize(pairs, width)


class Transliterator(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.mix = nn.Conv1d(dim, dim, 3, padding=1)
        self.query = nn.Linear(2 * dim, dim)
        self.position = nn.Embedding(max(BUCKETS), dim)
        self.out = nn.Sequential(nn.Linear(2 * dim, 2 * dim), nn.Tanh(), nn.Linear(2 * dim, VOCAB))

    def encode(self, source):
        x = self.embed(source)
        return x + torch.tanh(self.mix(x.transpose(1, 2)).transpose(1, 2))

    def forward(self, source, shifted):
        memory = self.encode(source)
        pad_mask = source.eq(PAD)
        slots = self.position.weight[:source.size(1)]
        slots = slots.unsqueeze(0).expand(source.size(0), -1, -1)
        query = self.query(torch.cat([self.embed(shifted), slots], dim=-1))
        score = query @ (memory + slots).transpose(1, 2)
        score = score.masked_fill(pad_mask[:, None], -1e4)
        context = score.softmax(-1) @ memory
        return self.out(torch.cat([context, query], dim=-1))


def shift_right(target):
    bos = torch.full_like(target[:, :1], BOS)
    return torch.cat([bos, target[:, :-1]], dim=1)


def train():
    torch.manual_seed(5)
    rng = random.Random(5)
    device = torch_xla.device()

    batches = iter(BucketedBatches(make_corpus(240, rng), rng))
    model = Transliterator().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.15, momentum=0.8)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1.0, total_iters=5)
    loss_sum = torch.zeros((), device=device)
    char_sum = torch.zeros((), device=device)

    for update in range(1, UPDATES + 1):
        chars = 0
        optimizer.zero_grad()
        while chars < CHARS_PER_UPDATE:
            source, target = next(batches)
            chars += int(target.ne(PAD).sum())
            source, target = source.to(device), target.to(device)
            logits = model(source, shift_right(target))
            loss = F.cross_entropy(
                logits.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum"
            )
            (loss / CHARS_PER_UPDATE).backward()
            loss_sum += loss.detach()
            char_sum += target.ne(PAD).sum()
        xm.optimizer_step(optimizer)
        scheduler.step()
        torch_xla.sync()

        if update % 8 == 0:
            print(f"update {update} nll/char {(loss_sum / char_sum).item():.4f}")


if __name__ == "__main__":
    train()
