"""Keyword spotting on synthetic filter-bank features."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

BANDS = 20
KEYWORDS = 6
BATCH_SIZE = 6
EPOCHS = 2


class Utterances(Dataset):
    def __init__(self, n, seed=7):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(n):
            label = int(torch.randint(KEYWORDS, (1,), generator=g))
            frames = int(torch.randint(24, 65, (1,), generator=g))
            clip = torch.randn(frames, BANDS, generator=g)
            clip[:, 3 * label : 3 * label + 3] += 1.0
            self.items.append((clip, label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    clips, labels = zip(*items)
    frames = max(c.size(0) for c in clips)
    batch = torch.zeros(len(clips), frames, BANDS)
    weight = torch.zeros(len(clips), frames)
    for i, clip in enumerate(clips):
        batch[i, : clip.size(0)] = clip
        weight[i, : clip.size(0)] = 1.0 / clip.size(0)
    return batch, weight, torch.tensor(labels)


class SpecMask(nn.Module):
    """Blanks one band range per batch, as in SpecAugment."""

    def __init__(self, max_bands=6, seed=0):
        super().__init__()
        self.max_bands = max_bands
        self.rng = random.Random(seed)

    def forward(self, x):
        if not self.training:
            return x
        width = self.rng.randint(1, self.max_bands)
        low = self.rng.randint(0, BANDS - width)
        x = x.clone()
        x[:, :, low : low + width] = 0.0
        return x


class Spotter(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.mask = SpecMask()
        self.conv = nn.Conv1d(BANDS, dim, 5, padding=2)
        self.out = nn.Linear(dim, KEYWORDS)

    def forward(self, x, weight):
        x = self.mask(x)
        h = F.relu(self.conv(x.transpose(1, 2)))
        pooled = (h * weight.unsqueeze(1)).sum(dim=-1)
        return self.out(pooled)


def main():
    torch.manual_seed(4)
    device = xm.xla_device()
    loader = DataLoader(Utterances(120), BATCH_SIZE, shuffle=True, drop_last=True, collate_fn=collate)
    batches = pl.MpDeviceLoader(loader, device)
    model = Spotter().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    for epoch in range(EPOCHS):
        model.train()
        total = torch.zeros((), device=device)
        for x, weight, labels in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x, weight), labels)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        torch_xla.sync()
        print(f"epoch {epoch}  mean loss {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
