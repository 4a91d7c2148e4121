"""Peptide binding-affinity regression: length buckets, fixed-size batches, gated convolution."""
import os
import random

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 2024
AMINO = "ACDEFGHIKLMNPQRSTVWY"
PAD = 0
BUCKETS = (8, 12, 16)
BATCH, EPOCHS, PER_EPOCH = 16, 3, 18
N_VALID = 40
HYDROPATHY = dict(zip(AMINO, [1.8, 2.5, -3.5, -3.5, 2.8, -0.4, -3.2, 4.5, -3.9, 3.8,
                              1.9, -3.5, -1.6, -3.5, -4.5, -0.8, -0.7, 4.2, -0.9, -1.3]))


def random_peptide(rng):
    return "".join(rng.choice(AMINO) for _ in range(rng.randint(5, BUCKETS[-1])))


def affinity(seq, rng):
    core = sum(HYDROPATHY[a] for a in seq[1:-1]) / len(seq)
    anchor = 1.0 if seq[1] in "LMIV" else 0.0
    return 0.3 * core + anchor + rng.gauss(0.0, 0.1)


def encode(seq, length):
    ids = [AMINO.index(a) + 1 for a in seq]
    return ids + [PAD] * (length - len(ids))


def bucket_of(seq):
    return next(b for b in BUCKETS if len(seq) <= b)


def collate(pairs, length):
    ids = torch.tensor([encode(s, length) for s, _ in pairs])
    target = torch.tensor([y for _, y in pairs])
    return ids, target


class BucketSampler:
    """Full batches only, each from one bucket; leftovers wait for the next epoch."""

    def __init__(self, pairs, rng):
        self.rng = rng
        self.groups = {b: [p for p in pairs if bucket_of(p[0]) == b] for b in BUCKETS}

    def epoch(self, n):
        plan = []
        for b, group in self.groups.items():
            self.rng.shuffle(group)
            plan += [(b, i) for i in range(0, len(group) - BATCH + 1, BATCH)]
        self.rng.shuffle(plan)
        for b, i in plan[:n]:
            yield collate(self.groups[b][i:i + BATCH], b)


class AffinityNet(nn.Module):
    def __init__(self, dim=16, hidden=20):
        super().__init__()
        self.embed = nn.Embedding(len(AMINO) + 1, dim, padding_idx=PAD)
        self.mix = nn.Conv1d(dim, hidden, 3, padding=1)
        self.gate = nn.Conv1d(dim, hidden, 3, padding=1)
        self.attn = nn.Linear(hidden, 1)
        self.out = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, ids):
        keep = ids != PAD
        e = self.embed(ids).transpose(1, 2)
        h = (torch.tanh(self.mix(e)) * torch.sigmoid(self.gate(e))).transpose(1, 2)
        score = self.attn(h).squeeze(-1).masked_fill(~keep, -1e4)
        pooled = (F.softmax(score, dim=-1).unsqueeze(-1) * h).sum(dim=1)
        return self.out(pooled).squeeze(-1)


@torch.no_grad()
def evaluate(model, pairs, device):
    model.eval()
    error, n = 0.0, 0
    for i in range(0, len(pairs), BATCH):
        ids, target = collate(pairs[i:i + BATCH], BUCKETS[-1])
        sq = F.mse_loss(model(ids.to(device)), target.to(device), reduction="sum")
        xm.mark_step()
        error += sq.item()
        n += target.numel()
    model.train()
    return (error / n) ** 0.5


def main():
    rng = random.Random(SEED)
    torch.manual_seed(SEED)
    device = torch_xla.device()
    seqs = [random_peptide(rng) for _ in range(520)]
    pairs = [(s, affinity(s, rng)) for s in seqs]
    valid, train = pairs[:N_VALID], pairs[N_VALID:]
    sampler = BucketSampler(train, rng)

    model = AffinityNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 4) / 8.5))

    step = 0
    for epoch in range(EPOCHS):
        for ids, target in sampler.epoch(PER_EPOCH):
            ids, target = ids.to(device), target.to(device)
            optimizer.zero_grad()
            loss = F.smooth_l1_loss(model(ids), target)
            loss.backward()
            optimizer.step()
            scheduler.step()
            xm.mark_step()
            step += 1
        rmse = evaluate(model, valid, device)
        print(f"epoch {epoch} step {step} loss {loss.item():.4f} valid rmse {rmse:.4f}", flush=True)


if __name__ == "__main__":
    main()
