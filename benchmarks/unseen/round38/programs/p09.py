"""Secondary structure tagging of protein chains, batched by length bucket."""
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 13
AMINO = 21
PAD = 20
STATES = 3
BUCKETS = (24, 40, 64)
BATCH = 12
EPOCHS = 6
CHAINS = 110


def make_chain(rng):
    n = rng.randint(12, BUCKETS[-1])
    seq, lab, state = [], [], rng.randrange(STATES)
    for _ in range(n):
        if rng.random() < 0.15:
            state = rng.randrange(STATES)
        seq.append((state * 6 + rng.randrange(7)) % 20)
        lab.append(state)
    return seq, lab


def bucket_of(n):
    return next(b for b in BUCKETS if n <= b)


class BucketLoader:
    def __init__(self, chains, batch, seed, shuffle=True):
        self.rng = random.Random(seed)
        self.batch = batch
        self.shuffle = shuffle
        self.groups = defaultdict(list)
        for chain in chains:
            self.groups[bucket_of(len(chain[0]))].append(chain)

    def collate(self, items, width):
        seq = torch.full((len(items), width), PAD, dtype=torch.long)
        lab = torch.full((len(items), width), -100, dtype=torch.long)
        for i, (s, l) in enumerate(items):
            seq[i, : len(s)] = torch.tensor(s)
            lab[i, : len(l)] = torch.tensor(l)
        return seq, lab

    def __iter__(self):
        batches = []
        for width, items in self.groups.items():
            items = list(items)
            if self.shuffle:
                self.rng.shuffle(items)
            for i in range(0, len(items), self.batch):
                batches.append((width, items[i : i + self.batch]))
        if self.shuffle:
            self.rng.shuffle(batches)
        for width, items in batches:
            yield self.collate(items, width)


class GatedConv(nn.Module):
    def __init__(self, dim, dilation):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.conv = nn.Conv1d(dim, 2 * dim, 3, padding=dilation, dilation=dilation)

    def forward(self, x, keep):
        h = self.norm(x) * keep
        value, gate = self.conv(h.transpose(1, 2)).chunk(2, dim=1)
        return x + (value * torch.sigmoid(gate)).transpose(1, 2)


class Tagger(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Embedding(AMINO, dim, padding_idx=PAD)
        self.layers = nn.ModuleList(GatedConv(dim, d) for d in (1, 2, 4))
        self.out = nn.Linear(dim, STATES)

    def forward(self, seq):
        keep = (seq != PAD).unsqueeze(-1).float()
        h = self.embed(seq)
        for layer in self.layers:
            h = layer(h, keep)
        return self.out(h)


@torch.no_grad()
def q3(model, loader, device):
    model.eval()
    right = torch.zeros((), device=device)
    total = torch.zeros((), device=device)
    for seq, lab in loader:
        seq, lab = seq.to(device), lab.to(device)
        mask = (lab != -100).float()
        right += ((model(seq).argmax(-1) == lab).float() * mask).sum()
        total += mask.sum()
        xm.mark_step()
    model.train()
    return (right / total).item()


def main():
    torch.manual_seed(SEED)
    rng = random.Random(SEED)
    device = torch_xla.device()
    chains = [make_chain(rng) for _ in range(CHAINS)]
    train = BucketLoader(chains[:90], BATCH, SEED)
    valid = BucketLoader(chains[90:], BATCH, SEED, shuffle=False)

    model = Tagger().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)

    for epoch in range(EPOCHS):
        losses = []
        for seq, lab in train:
            seq, lab = seq.to(device), lab.to(device)
            logits = model(seq)
            loss = F.cross_entropy(logits.flatten(0, 1), lab.flatten(), ignore_index=-100)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            xm.mark_step()
        epoch_loss = torch.stack(losses).mean()
        acc = q3(model, valid, device)
        print(f"epoch {epoch} loss {epoch_loss.item():.4f} Q3 {acc:.3f}")


if __name__ == "__main__":
    main()
