"""Self-supervised pre-training on gearbox vibration windows.

Momentum-contrast set-up: two augmented views of the same window are pulled
together, keys of earlier batches serve as negatives.  A nearest-centroid
probe on the labelled bench recordings tells whether the features get better.
"""
import argparse
import copy
import logging

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("vibration-moco")


class VibrationWindows(Dataset):
    """Synthetic stand-in for the recorder dump: harmonics plus bearing noise."""

    def __init__(self, n, length=96, classes=4, seed=0):
        rng = np.random.default_rng(seed)
        t = np.linspace(0.0, 1.0, length, dtype=np.float32)
        self.labels = rng.integers(0, classes, size=n)
        base = 3.0 + 2.5 * self.labels[:, None]
        phase = rng.uniform(0, 2 * np.pi, size=(n, 1))
        wave = np.sin(2 * np.pi * base * t[None] + phase)
        self.windows = (wave + 0.3 * rng.standard_normal((n, length))).astype(np.float32)

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, i):
        return torch.from_numpy(self.windows[i]), int(self.labels[i])


class Encoder(nn.Module):
    def __init__(self, length=96, frames=8, width=12, dim=24):
        super().__init__()
        self.frame = nn.Linear(length // frames, width)
        self.mix = nn.Linear(frames * width, 2 * width)
        self.frames = frames
        self.head = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, dim))

    def features(self, x):
        h = F.relu(self.frame(x.unflatten(1, (self.frames, -1))))
        return F.relu(self.mix(h.flatten(1)))

    def forward(self, x):
        return F.normalize(self.head(self.features(x)), dim=1)


class MoCo(nn.Module):
    def __init__(self, dim=24, queue_size=1024, m=0.99, temperature=0.2):
        super().__init__()
        self.m, self.temperature, self.queue_size = m, temperature, queue_size
        self.query = Encoder(dim=dim)
        self.key = copy.deepcopy(self.query)
        for p in self.key.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(queue_size, dim), dim=1))
        self.cursor = 0

    @torch.no_grad()
    def update_key_encoder(self):
        for q, k in zip(self.query.parameters(), self.key.parameters()):
            k.mul_(self.m).add_(q, alpha=1.0 - self.m)

    @torch.no_grad()
    def remember(self, keys):
        n = keys.shape[0]
        assert self.queue_size % n == 0
        self.queue[self.cursor:self.cursor + n] = keys
        self.cursor = (self.cursor + n) % self.queue_size

    def forward(self, view_a, view_b):
        q = self.query(view_a)
        with torch.no_grad():
            self.update_key_encoder()
            k = self.key(view_b)
        positive = (q * k).sum(1, keepdim=True)
        negative = q @ self.queue.clone().t()
        logits = torch.cat([positive, negative], dim=1) / self.temperature
        target = torch.zeros(q.shape[0], dtype=torch.long, device=q.device)
        loss = F.cross_entropy(logits, target)
        self.remember(k)
        return loss


def augment(x):
    """Random gain and additive noise, both drawn on the device."""
    gain = 0.7 + 0.6 * torch.rand(x.shape[0], 1, device=x.device)
    return x * gain + 0.1 * torch.randn_like(x)


@torch.no_grad()
def centroid_probe(model, windows, labels, classes=4):
    feats = F.normalize(model.query.features(windows), dim=1)
    one_hot = F.one_hot(labels, classes).to(feats.dtype)
    centroids = F.normalize(one_hot.t() @ feats, dim=1)
    pred = (feats @ centroids.t()).argmax(1)
    return (pred == labels).float().mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=30)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--probe-every", type=int, default=10)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    torch.manual_seed(3)

    device = torch_xla.device()
    loader = DataLoader(VibrationWindows(args.steps * args.batch_size), batch_size=args.batch_size,
                        shuffle=True, drop_last=True)
    bench = VibrationWindows(64, seed=9)
    bench_x = torch.from_numpy(bench.windows).to(device)
    bench_y = torch.from_numpy(bench.labels).to(device)

    model = MoCo().to(device)
    opt = torch.optim.SGD(model.query.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    for step, (windows, _) in enumerate(loader, start=1):
        windows = windows.to(device)
        loss = model(augment(windows), augment(windows))
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()

        if step % args.probe_every == 0:
            acc = centroid_probe(model, bench_x, bench_y)
            log.info("step %d  loss %.4f  probe accuracy %.3f", step, loss.item(), acc.item())


if __name__ == "__main__":
    main()
