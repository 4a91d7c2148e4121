"""Distogram prediction for protein chains in length buckets, with recycling after a warm-up."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BUCKETS = (24, 32, 48)
ALPHABET = 21
PAD = 20
BINS = 12
WARMUP_EPOCHS = 2
RECYCLES = 2


def random_chain(generator):
    """Sequence and CA trace of a persistent random walk."""
    length = int(torch.randint(14, BUCKETS[-1] + 1, (1,), generator=generator))
    seq = torch.randint(0, 20, (length,), generator=generator)
    turn = torch.randn(length, 3, generator=generator)
    heading = F.normalize(turn.cumsum(0) + 2.0 * turn.roll(1, 0), dim=-1)
    return seq, 3.8 * heading.cumsum(0)


def bucket_of(length):
    return next(b for b in BUCKETS if length <= b)


def make_batches(chains, size, rng):
    groups = {b: [] for b in BUCKETS}
    for chain in chains:
        groups[bucket_of(len(chain[0]))].append(chain)
    batches = []
    for bucket, members in groups.items():
        rng.shuffle(members)
        for i in range(0, len(members) - size + 1, size):
            batches.append((bucket, members[i : i + size]))
    rng.shuffle(batches)
    return batches


def collate(bucket, members):
    seq = torch.full((len(members), bucket), PAD)
    xyz = torch.zeros(len(members), bucket, 3)
    for i, (s, c) in enumerate(members):
        seq[i, : len(s)] = s
        xyz[i, : len(s)] = c
    return seq, xyz


class PairNet(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Embedding(ALPHABET, dim)
        self.relpos = nn.Embedding(33, dim)
        self.recycle = nn.Linear(BINS, dim)
        self.norm = nn.LayerNorm(dim)
        self.row = nn.Linear(dim, dim)
        self.mix = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.out = nn.Linear(dim, BINS)

    def forward(self, seq, previous=None):
        n = seq.shape[1]
        s = self.embed(seq)
        pos = torch.arange(n, device=seq.device)
        offset = (pos[:, None] - pos[None, :]).clamp(-16, 16) + 16
        pair = s[:, :, None] + s[:, None, :] + self.relpos(offset)
        if previous is not None:
            pair = pair + self.recycle(previous.softmax(-1))
        z = self.norm(pair)
        z = z + torch.einsum("bikd,bjkd->bijd", self.row(z), z) / n
        logits = self.out(z + self.mix(z))
        return 0.5 * (logits + logits.transpose(1, 2))


def distogram_loss(logits, seq, xyz):
    edges = torch.linspace(4.0, 36.0, BINS - 1, device=xyz.device)
    gap = xyz[:, :, None] - xyz[:, None, :]
    dist = torch.sqrt(gap.pow(2).sum(-1) + 1e-6)
    target = (dist[..., None] > edges).sum(-1)
    real = (seq != PAD).float()
    weight = real[:, :, None] * real[:, None, :]
    loss = F.cross_entropy(logits.permute(0, 3, 1, 2), target, reduction="none")
    return (loss * weight).sum() / weight.sum()


def predict(model, seq, recycles):
    with torch.no_grad():
        previous = None
        for _ in range(recycles):
            previous = model(seq, previous)
    return model(seq, previous)


def main():
    torch.manual_seed(4)
    rng = random.Random(4)
    generator = torch.Generator().manual_seed(40)
    device = xm.xla_device()
    chains = [random_chain(generator) for _ in range(72)]
    held_out = make_batches([random_chain(generator) for _ in range(24)], 4, rng)
    model = PairNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    for epoch in range(6):
        recycles = 0 if epoch < WARMUP_EPOCHS else RECYCLES
        for bucket, members in make_batches(chains, 4, rng):
            seq, xyz = (t.to(device) for t in collate(bucket, members))
            loss = distogram_loss(predict(model, seq, recycles), seq, xyz)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            torch_xla.sync()
        scores = []
        for bucket, members in held_out:
            seq, xyz = (t.to(device) for t in collate(bucket, members))
            with torch.no_grad():
                scores.append(distogram_loss(predict(model, seq, RECYCLES), seq, xyz).item())
        print(f"epoch {epoch}: train {loss.item():.3f}  held out {sum(scores) / max(len(scores), 1):.3f}")


if __name__ == "__main__":
    main()
