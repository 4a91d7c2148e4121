"""Keyword spotting on raw waveforms with a small 1-D network."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SAMPLES, RATE, CLASSES, BATCH = 800, 1000, 4, 12


class Tones:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.t = torch.arange(SAMPLES) / RATE

    def batch(self, n=BATCH):
        y = torch.randint(0, CLASSES, (n,), generator=self.g)
        f = 40.0 * (1 + y)[:, None] * (1 + 0.05 * torch.randn(n, 1, generator=self.g))
        chirp = torch.sin(2 * math.pi * f * self.t * (1 + 0.2 * self.t))
        env = torch.exp(-((self.t - 0.4) ** 2) / 0.03)
        return chirp * env, y


class WaveAugment(nn.Module):
    """Gain, time shift and noise; works on whatever device the batch is on."""

    def __init__(self, max_shift=0.1, noise=0.02, seed=0):
        super().__init__()
        self.max_shift, self.noise = int(max_shift * RATE), noise
        self.rng = random.Random(seed)

    def gain(self, x):
        return x * 10 ** (self.rng.uniform(-6, 6) / 20)

    def shift(self, x):
        n = self.rng.randint(-self.max_shift, self.max_shift)
        return torch.roll(x, n, dims=-1)

    def forward(self, x):
        if not self.training:
            return x
        x = self.shift(self.gain(x))
        return x + self.noise * torch.randn_like(x)


class M3(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, w, 32, stride=8), nn.GroupNorm(3, w), nn.ReLU(), nn.MaxPool1d(4),
            nn.Conv1d(w, 2 * w, 3), nn.GroupNorm(3, 2 * w), nn.ReLU(), nn.MaxPool1d(4))
        self.fc = nn.Linear(2 * w, CLASSES)

    def forward(self, x):
        return self.fc(self.net(x[:, None]).mean(-1))


class Monitor:
    """Collects values on the device and reads them only when a report is due."""

    def __init__(self, every):
        self.every, self.values = every, {}

    def add(self, **kw):
        for name, v in kw.items():
            self.values.setdefault(name, []).append(v.detach())

    def due(self, step):
        return (step + 1) % self.every == 0

    def report(self, step):
        parts = [f"{k} {torch.stack(v).mean().item():.4f}" for k, v in self.values.items()]
        print(f"[{step + 1}]", " ".join(parts))


class Spotter:
    def __init__(self, device):
        self.device = device
        self.augment, self.net = WaveAugment(seed=5), M3().to(device)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=3e-3)
        self.monitor = Monitor(every=5)
        self.data = Tones(1)

    def step(self):
        x, y = (t.to(self.device) for t in self.data.batch())
        logits = self.net(self.augment(x))
        loss = F.cross_entropy(logits, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.monitor.add(loss=loss, acc=(logits.argmax(-1) == y).float().mean())
        torch_xla.sync()

    @torch.no_grad()
    def test(self, batches=3):
        self.net.eval(), self.augment.eval()
        data, hits = Tones(2), 0
        for _ in range(batches):
            x, y = (t.to(self.device) for t in data.batch())
            hit = (self.net(self.augment(x)).argmax(-1) == y).sum()
            torch_xla.sync()
            hits += hit.item()
        self.net.train(), self.augment.train()
        return hits / (batches * BATCH)


def main():
    torch.manual_seed(0)
    spotter = Spotter(torch_xla.device())
    torch_xla.sync()
    for step in range(40):
        spotter.step()
        if spotter.monitor.due(step):
            spotter.monitor.report(step)
    print("test accuracy", round(spotter.test(), 3))


if __name__ == "__main__":
    main()
