"""Promoter strength classification from DNA, bucketed by sequence length."""
import bisect
import itertools
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset, Sampler

BASES = "ACGT"
VOCAB = {b: i + 1 for i, b in enumerate(BASES)}
BUCKETS = (24, 40, 64)
STRENGTHS = ("weak", "medium", "strong")


def synth_promoter(rng):
    length = rng.randint(16, BUCKETS[-1])
    seq = [rng.choice(BASES) for _ in range(length)]
    strength = rng.randrange(3)
    if strength:
        motif = "TATAAT" if strength == 2 else "TACGAT"
        at = rng.randrange(length - len(motif))
        seq[at:at + len(motif)] = motif
    return "".join(seq), strength


class Promoters(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = [synth_promoter(rng) for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]

    def bucket_of(self, i):
        return bisect.bisect_left(BUCKETS, len(self.rows[i][0]))


class BucketSampler(Sampler):
    """Batches drawn from one bucket at a time; short remainders wait for the next epoch."""

    def __init__(self, data, batch, seed, shuffle=True):
        self.groups = [[] for _ in BUCKETS]
        for i in range(len(data)):
            self.groups[data.bucket_of(i)].append(i)
        self.batch, self.shuffle = batch, shuffle
        self.rng = random.Random(seed)

    def __len__(self):
        return sum(len(g) // self.batch for g in self.groups)

    def __iter__(self):
        batches = []
        for group in self.groups:
            order = self.rng.sample(group, len(group)) if self.shuffle else group
            full = len(order) - len(order) % self.batch
            batches += [order[k:k + self.batch] for k in range(0, full, self.batch)]
        if self.shuffle:
            self.rng.shuffle(batches)
        return iter(batches)


def collate(rows):
    longest = max(len(seq) for seq, _ in rows)
    width = BUCKETS[bisect.bisect_left(BUCKETS, longest)]
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    for r, (seq, _) in enumerate(rows):
        ids[r, :len(seq)] = torch.tensor([VOCAB[b] for b in seq])
    return ids, torch.tensor([s for _, s in rows])


class PromoterNet(nn.Module):
    def __init__(self, width=24, kernel=7):
        super().__init__()
        self.embed = nn.Embedding(len(VOCAB) + 1, width, padding_idx=0)
        self.conv = nn.Conv1d(width, width, kernel, padding=kernel // 2)
        self.mix = nn.Conv1d(width, width, 3, padding=1)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(2 * width, len(STRENGTHS))

    def forward(self, ids):
        mask = (ids > 0).unsqueeze(1).float()
        x = self.embed(ids).transpose(1, 2)
        x = F.relu(self.conv(x)) * mask
        x = self.drop(F.relu(self.mix(x))) * mask
        mean = x.sum(-1) / mask.sum(-1)
        return self.head(torch.cat([mean, x.amax(-1)], 1))


def train_epoch(model, opt, loader, device, accumulate, pending):
    model.train()
    feed = pl.ParallelLoader(loader, [device]).per_device_loader(device)
    for ids, target in feed:
        loss = F.cross_entropy(model(ids), target) / accumulate
        loss.backward()
        pending += 1
        if pending == accumulate:
            opt.step()
            opt.zero_grad(set_to_none=False)
            pending = 0
    return pending


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    right = torch.zeros((), dtype=torch.long, device=device)
    seen = 0
    for ids, target in pl.ParallelLoader(loader, [device]).per_device_loader(device):
        right += (model(ids).argmax(1) == target).sum()
        seen += target.size(0)
    torch_xla.sync()
    return right.item() / seen


def main():
    random.seed(2)
    torch.manual_seed(2)
    device = torch_xla.device()
    train, held = Promoters(336, seed=2), Promoters(96, seed=3)
    sampler = BucketSampler(train, batch=8, seed=2)
    loader = DataLoader(train, batch_sampler=sampler, collate_fn=collate)
    held_loader = DataLoader(held, collate_fn=collate,
                             batch_sampler=BucketSampler(held, 8, seed=3, shuffle=False))

    model = PromoterNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for p in itertools.chain(model.parameters()):
        p.grad = torch.zeros_like(p)
    torch_xla.sync()
    pending = 0
    for epoch in range(3):
        pending = train_epoch(model, opt, loader, device, accumulate=2, pending=pending)
        acc = accuracy(model, held_loader, device)
        xm.master_print(f"epoch {epoch}: held-out accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
