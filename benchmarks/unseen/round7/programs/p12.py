"""Keyword spotting with a gated recurrent encoder over clips of different length."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

FEATS, WORDS, MAX_LEN, BATCH = 8, 4, 20, 4


class Clips:
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        proto = torch.randn(WORDS, MAX_LEN, FEATS, generator=g)
        self.items = []
        for _ in range(n):
            w = torch.randint(0, WORDS, (1,), generator=g).item()
            length = torch.randint(4, MAX_LEN + 1, (1,), generator=g).item()
            x = proto[w, :length] + 0.4 * torch.randn(length, FEATS, generator=g)
            self.items.append((x, w))


class SortishSampler:
    """Batches of similar length, in a new order each epoch."""

    def __init__(self, clips, seed):
        self.clips, self.rng = clips, random.Random(seed)

    def __iter__(self):
        key = [len(x) + 2 * self.rng.random() for x, _ in self.clips.items]
        order = sorted(range(len(key)), key=key.__getitem__)
        groups = [order[i:i + BATCH] for i in range(0, len(order), BATCH)]
        self.rng.shuffle(groups)
        for group in groups:
            yield self.collate([self.clips.items[i] for i in group])

    @staticmethod
    def collate(items):
        x = torch.zeros(len(items), MAX_LEN, FEATS)
        for row, (clip, _) in zip(x, items):
            row[:len(clip)] = clip
        lengths = torch.tensor([len(clip) for clip, _ in items])
        return x, lengths, torch.tensor([w for _, w in items])


class LayerNormGRUCell(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.x = nn.Linear(dim, 3 * dim)
        self.h = nn.Linear(dim, 3 * dim, bias=False)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, h):
        xr, xz, xn = self.x(x).chunk(3, -1)
        hr, hz, hn = self.h(h).chunk(3, -1)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(self.norm(xn + torch.sigmoid(xr + hr) * hn))
        return (1 - z) * n + z * h


class Spotter(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.dim = dim
        self.proj = nn.Linear(FEATS, dim)
        self.cell = LayerNormGRUCell(dim)
        self.fc = nn.Linear(dim, WORDS)

    def encode(self, x, lengths):
        frames = F.relu(self.proj(x)).unbind(1)
        remaining = lengths.to(x.device).unsqueeze(1)
        h = x.new_zeros(x.size(0), self.dim)
        for t in range(int(lengths.max())):
            new = self.cell(frames[t], h)
            h = torch.where(remaining > t, new, h)
        return h

    def forward(self, x, lengths):
        return self.fc(self.encode(x, lengths))


class Meter:
    def __init__(self):
        self.total = self.count = 0

    def add(self, value, n):
        self.total += value * n
        self.count += n

    def result(self):
        return self.total / max(1, self.count)


def run_epoch(model, batches, device, optimizer):
    loss_meter = Meter()
    for x, lengths, y in batches:
        optimizer.zero_grad()
        logits = model(x.to(device), lengths)
        loss = F.cross_entropy(logits, y.to(device), label_smoothing=0.05)
        loss.backward()
        optimizer.step()
        xm.mark_step()
        loss_meter.add(loss.item(), len(y))
    return loss_meter.result()


def main():
    torch.manual_seed(6)
    device = torch_xla.device()
    batches = SortishSampler(Clips(40, 3), seed=4)
    model = Spotter().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    xm.mark_step()
    for epoch in range(4):
        loss = run_epoch(model, batches, device, optimizer)
        scheduler.step()
        print(f'epoch {epoch} loss {loss:.4f} lr {scheduler.get_last_lr()[0]:.4g}')


if __name__ == '__main__':
    main()
