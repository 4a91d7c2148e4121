"""Playlist continuation: next-track prediction with length buckets."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TRACKS = 50
BUCKETS = (6, 10, 16)
BATCH = 6
EPOCHS = 5


class NextTrack(nn.Module):
    def __init__(self, dim=20):
        super().__init__()
        self.emb = nn.Embedding(TRACKS + 1, dim, padding_idx=0)
        self.gate = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, TRACKS + 1)

    def forward(self, ids):
        h = self.emb(ids)
        h = torch.cumsum(h * torch.sigmoid(self.gate(h)), dim=1)
        return self.out(torch.tanh(h))


def make_playlists(n, seed):
    rng = random.Random(seed)
    lists = []
    for _ in range(n):
        first = rng.randint(1, TRACKS)
        hop = rng.choice([1, 2, 5])
        size = rng.randint(3, BUCKETS[-1])
        lists.append([(first + hop * i) % TRACKS + 1 for i in range(size)])
    return lists


def bucketed(playlists, rng):
    groups = {b: [] for b in BUCKETS}
    for p in playlists:
        width = next(b for b in BUCKETS if len(p) <= b)
        groups[width].append(p + [0] * (width - len(p)))
    batches = []
    for rows in groups.values():
        rng.shuffle(rows)
        for i in range(0, len(rows) - BATCH + 1, BATCH):
            batches.append(torch.tensor(rows[i:i + BATCH]))
    rng.shuffle(batches)
    return batches


def next_loss(model, ids):
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0)


def main():
    torch.manual_seed(1)
    rng = random.Random(2)
    device = torch_xla.device()
    model = NextTrack().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.3)
    train, held_out = make_playlists(60, 3), make_playlists(30, 4)
    for epoch in range(EPOCHS):
        model.train()
        for ids in bucketed(train, rng):
            opt.zero_grad()
            loss = next_loss(model, ids.to(device))
            loss.backward()
            opt.step()
            torch_xla.sync()
        model.eval()
        total, count = 0.0, 0
        with torch.no_grad():
            for ids in bucketed(held_out, rng):
                total += next_loss(model, ids.to(device)).item()
                count += 1
        print(f"epoch {epoch} held-out {total / count:.3f}")


if __name__ == "__main__":
    main()
