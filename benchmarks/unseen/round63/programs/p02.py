# Rhythm classification on single-lead ECG strips.  Recordings come in three
# standard strip lengths; the sampler never mixes them inside a batch.
import math
import random
from collections import defaultdict

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

FS = 32
STRIP_SECONDS = (4, 8, 12)
CLASSES = 4
BATCH = 8
EPOCHS = 4


def make_strip(rng, seconds, label):
    t = np.arange(seconds * FS) / FS
    rate = {0: 1.1, 1: 0.7, 2: 2.0, 3: 1.2}[label]
    phase = rng.random() * 2 * math.pi
    jitter = np.cumsum(rng.normal(0, 0.05 if label == 3 else 0.005, t.size))
    beat = np.cos(2 * math.pi * rate * t + phase + jitter)
    x = np.maximum(beat - 0.7, 0) * 3.0
    x += 0.2 * np.sin(2 * math.pi * 0.3 * t) + rng.normal(0, 0.05, t.size)
    return x.astype(np.float32)


class Strips(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.items = []
        for k in range(n):
            label = int(rng.integers(CLASSES))
            self.items.append((make_strip(rng, STRIP_SECONDS[k % 3], label), label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        x, y = self.items[i]
        return torch.from_numpy(x)[None], y


class SameLengthBatches(torch.utils.data.Sampler):
    def __init__(self, ds, batch_size, shuffle, seed=0):
        self.groups = defaultdict(list)
        for i, (x, _) in enumerate(ds.items):
            self.groups[len(x)].append(i)
        self.batch_size, self.shuffle = batch_size, shuffle
        self.rng = random.Random(seed)

    def __iter__(self):
        out = []
        for idx in self.groups.values():
            idx = list(idx)
            if self.shuffle:
                self.rng.shuffle(idx)
            full = len(idx) // self.batch_size * self.batch_size
            out += [idx[k:k + self.batch_size] for k in range(0, full, self.batch_size)]
        if self.shuffle:
            self.rng.shuffle(out)
        return iter(out)

    def __len__(self):
        return sum(len(v) // self.batch_size for v in self.groups.values())


class SEBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, 7, stride=2, padding=3)
        self.norm = nn.GroupNorm(4, cout)
        self.gate = nn.Sequential(nn.Linear(cout, cout // 2), nn.ReLU(), nn.Linear(cout // 2, cout), nn.Sigmoid())

    def forward(self, x):
        x = F.gelu(self.norm(self.conv(x)))
        return x * self.gate(x.mean(-1))[..., None]


class RhythmNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(SEBlock(1, 8), SEBlock(8, 16), SEBlock(16, 16))
        self.attn = nn.Conv1d(16, 1, 1)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        h = self.body(x)
        w = torch.softmax(self.attn(h), dim=-1)
        return self.head(self.drop((h * w).sum(-1)))


def warmup_cosine(step, warm=6, total=64):
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))


def validate(model, loader, device):
    model.eval()
    hits = torch.zeros((), device=device)
    seen = 0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            hits += (model(x).argmax(-1) == y).float().sum()
            seen += y.numel()
            xm.mark_step()
    model.train()
    return hits.item() / seen


if __name__ == "__main__":
    torch.manual_seed(5)
    device = xm.xla_device()
    train, val = Strips(336, 1), Strips(48, 2)
    tl = torch.utils.data.DataLoader(train, batch_sampler=SameLengthBatches(train, BATCH, True, 3))
    vl = torch.utils.data.DataLoader(val, batch_sampler=SameLengthBatches(val, BATCH, False))
    model = RhythmNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, warmup_cosine)
    steps = 0
    for epoch in range(EPOCHS):
        total = torch.zeros((), device=device)
        xm.mark_step()
        for k, (x, y) in enumerate(tl):
            if k >= 12:
                break
            x, y = x.to(device), y.to(device)
            gain = 1.0 + 0.1 * torch.randn(x.size(0), 1, 1, device=device)
            loss = F.cross_entropy(model(x * gain), y, label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.detach()
            xm.mark_step()
            steps += 1
        acc = validate(model, vl, device)
        xm.master_print(f"epoch {epoch} step {steps} loss {total.item() / 12:.3f} val acc {acc:.3f}")
