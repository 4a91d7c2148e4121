"""Promoter classification from DNA of mixed length, length-bucketed batches."""
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BASES = 4
PAD = 4
BUCKETS = {32: 24, 64: 12, 96: 8}
MOTIF = (3, 0, 3, 0, 0, 0)
EPOCHS = 4


def make_reads(n, seed):
    rng = random.Random(seed)
    reads = []
    for _ in range(n):
        length = rng.randint(18, 96)
        seq = [rng.randrange(BASES) for _ in range(length)]
        label = rng.randrange(2)
        if label:
            at = rng.randrange(length - len(MOTIF))
            seq[at:at + len(MOTIF)] = MOTIF
        reads.append((seq, label))
    return reads


class BucketSampler:
    """Groups reads by padded length; every bucket has its own constant batch size."""

    def __init__(self, reads, seed):
        self.by_bucket = defaultdict(list)
        for seq, label in reads:
            width = next(b for b in BUCKETS if len(seq) <= b)
            self.by_bucket[width].append((seq, label))
        self.rng = random.Random(seed)

    def __iter__(self):
        plan = []
        for width, items in self.by_bucket.items():
            self.rng.shuffle(items)
            size = BUCKETS[width]
            for i in range(0, len(items) - size + 1, size):
                plan.append((width, items[i:i + size]))
        self.rng.shuffle(plan)
        for width, items in plan:
            yield self.collate(width, items)

    @staticmethod
    def collate(width, items):
        ids = torch.full((len(items), width), PAD, dtype=torch.long)
        for row, (seq, _) in enumerate(items):
            ids[row, :len(seq)] = torch.tensor(seq)
        return ids, torch.tensor([y for _, y in items])


class ResidualConv(nn.Module):
    def __init__(self, dim, dilation):
        super().__init__()
        self.norm = nn.GroupNorm(4, dim)
        self.conv = nn.Conv1d(dim, dim, 5, padding=2 * dilation, dilation=dilation)

    def forward(self, x, keep):
        return x + F.gelu(self.conv(self.norm(x) * keep))


class PromoterNet(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Embedding(BASES + 1, dim, padding_idx=PAD)
        self.layers = nn.ModuleList(ResidualConv(dim, d) for d in (1, 2, 4))
        self.score = nn.Conv1d(dim, 1, 1)
        self.head = nn.Linear(dim, 2)

    def forward(self, ids):
        keep = (ids != PAD).unsqueeze(1).float()
        x = self.embed(ids).transpose(1, 2)
        for layer in self.layers:
            x = layer(x, keep)
        att = self.score(x) + (keep - 1.0) * 1e4
        pooled = (x * att.softmax(-1)).sum(-1)
        return self.head(pooled)


@torch.no_grad()
def validate(model, sampler, device):
    model.eval()
    hits, total = 0, 0
    for ids, y in sampler:
        pred = model(ids.to(device)).argmax(1)
        torch_xla.sync()
        hits += (pred.cpu() == y).sum().item()
        total += y.numel()
    model.train()
    return hits / max(total, 1)


def main():
    torch.manual_seed(31)
    device = torch_xla.device()
    xm.set_rng_state(31, device)
    train = BucketSampler(make_reads(200, 32), seed=33)
    val = BucketSampler(make_reads(60, 34), seed=35)

    model = PromoterNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS * 24)

    step = 0
    for epoch in range(EPOCHS):
        running, batches = 0.0, 0
        for ids, y in train:
            ids, y = ids.to(device), y.to(device)
            loss = F.cross_entropy(model(ids), y, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            torch_xla.sync()
            running += loss.item()
            batches += 1
            step += 1
        acc = validate(model, val, device)
        print(f"epoch {epoch}  step {step}  loss {running / batches:.4f}  acc {acc:.3f}")


if __name__ == "__main__":
    main()
