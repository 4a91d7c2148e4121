"""Character-level GRU language model on synthetic log lines, bucketed by length."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset, Sampler

VOCAB = 20
PAD = 0
BUCKETS = (6, 9, 12)
ACCUM = 2


class LogLines(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.lines = []
        for _ in range(n):
            length = rng.randint(3, BUCKETS[-1] + 1)
            start, stride = rng.randint(1, VOCAB - 1), rng.randint(1, 3)
            self.lines.append([(start + stride * i) % (VOCAB - 1) + 1 for i in range(length)])

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        return self.lines[i]


def bucket_of(length):
    return next(b for b in BUCKETS if length - 1 <= b)


class BucketSampler(Sampler):
    """Yields full batches of lines that fall in the same length bucket."""

    def __init__(self, lines, batch_size, seed):
        self.batch_size = batch_size
        self.rng = random.Random(seed)
        self.groups = {b: [] for b in BUCKETS}
        for i, line in enumerate(lines):
            self.groups[bucket_of(len(line))].append(i)

    def __iter__(self):
        out = []
        for members in self.groups.values():
            members = members[:]
            self.rng.shuffle(members)
            for k in range(0, len(members) - self.batch_size + 1, self.batch_size):
                out.append(members[k:k + self.batch_size])
        self.rng.shuffle(out)
        return iter(out)

    def __len__(self):
        return sum(len(g) // self.batch_size for g in self.groups.values())


def collate(lines):
    width = bucket_of(max(len(line) for line in lines)) + 1
    ids = torch.full((len(lines), width), PAD, dtype=torch.long)
    for row, line in enumerate(lines):
        ids[row, :len(line)] = torch.tensor(line)
    return ids


class CharModel(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        x = self.embed(ids)
        h = torch.zeros(x.size(0), x.size(2), device=x.device)
        steps = []
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
            steps.append(h)
        return self.out(torch.stack(steps, dim=1))


def loss_fn(logits, targets):
    return F.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1), ignore_index=PAD)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    data = LogLines(96, seed=4)
    loader = DataLoader(data, batch_sampler=BucketSampler(data.lines, 8, seed=2), collate_fn=collate)
    model = CharModel().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)
    train_loader = pl.MpDeviceLoader(loader, device)

    micro = 0
    for epoch in range(4):
        total = torch.zeros((), device=device)
        for ids in train_loader:
            loss = loss_fn(model(ids[:, :-1]), ids[:, 1:]) / ACCUM
            loss.backward()
            torch_xla.sync()
            total += loss.detach()
            micro += 1
            if micro % ACCUM == 0:
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad(set_to_none=False)
        torch_xla.sync()
        print(f"epoch {epoch}: loss {total.item() * ACCUM / len(loader):.4f}")


if __name__ == "__main__":
    main()
