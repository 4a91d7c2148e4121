"""Contrastive pretraining on wrist accelerometer windows, followed by a linear probe."""
import math
import os
import random

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

NUM_AXES = 3
WINDOW = 64
ACTIVITIES = 5


def synthetic_windows(count, seed):
    """Periodic motion with activity-specific cadence plus a random gravity direction."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, ACTIVITIES, count)
    t = np.arange(WINDOW) / 32.0
    cadence = 0.8 + 0.6 * labels[:, None] + rng.normal(0, 0.05, (count, 1))
    phase = rng.uniform(0, 2 * math.pi, (count, NUM_AXES, 1))
    gain = rng.uniform(0.4, 1.0, (count, NUM_AXES, 1))
    base = gain * np.sin(2 * math.pi * cadence[:, None] * t + phase)
    base += 0.3 * gain * np.sin(4 * math.pi * cadence[:, None] * t + phase)
    gravity = rng.normal(0, 1, (count, NUM_AXES, 1))
    gravity /= np.linalg.norm(gravity, axis=1, keepdims=True)
    signal = base + 0.5 * gravity + rng.normal(0, 0.1, base.shape)
    return signal.astype(np.float32), labels.astype(np.int64)


def negate(x):
    return -x


def reverse_time(x):
    return x.flip(-1)


def cycle_axes(x):
    return torch.cat([x[:, 1:], x[:, :1]], dim=1)


def smooth(x):
    padded = F.pad(x, (1, 1))
    return 0.25 * padded[..., :-2] + 0.5 * x + 0.25 * padded[..., 2:]


def remove_gravity(x):
    return x - x.mean(dim=-1, keepdim=True)


def swap_halves(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([second, first], dim=-1)


def soft_clip(x):
    return 1.5 * torch.tanh(x / 1.5)


class RandomPolicy:
    """Applies a few operations per view, in random order."""

    def __init__(self, ops, num_ops, seed):
        self.ops = ops
        self.num_ops = num_ops
        self.rng = random.Random(seed)

    def __call__(self, x):
        for op in self.rng.sample(self.ops, self.num_ops):
            x = op(x)
        return x


class Encoder(nn.Module):
    def __init__(self, width=48, out=32):
        super().__init__()
        self.stem = nn.Linear(NUM_AXES * 8, width)
        self.mixer = nn.Linear(WINDOW // 8, WINDOW // 8)
        self.out = nn.Linear(width, out)

    def forward(self, x):
        patches = x.reshape(x.shape[0], NUM_AXES, WINDOW // 8, 8).permute(0, 2, 1, 3).flatten(2)
        h = torch.relu(self.stem(patches))
        h = h + self.mixer(h.transpose(1, 2)).transpose(1, 2)
        return self.out(h.mean(dim=1))


class Projector(nn.Module):
    def __init__(self, dim=32, out=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, out))

    def forward(self, h):
        return F.normalize(self.net(h), dim=-1)


def nt_xent(z, temperature):
    n = z.shape[0]
    logits = z @ z.t() / temperature
    logits = logits - 1e9 * torch.eye(n, device=z.device)
    partner = (torch.arange(n, device=z.device) + n // 2) % n
    return F.cross_entropy(logits, partner)


def probe(encoder, x, y, device):
    """Closed-form ridge classifier on frozen features, half for fitting and half for scoring."""
    with torch.no_grad():
        feats = encoder(torch.from_numpy(x).to(device)).cpu().numpy()
    feats = (feats - feats.mean(0)) / (feats.std(0) + 1e-6)
    half = len(feats) // 2
    gram = feats[:half].T @ feats[:half] + np.eye(feats.shape[1])
    weights = np.linalg.solve(gram, feats[:half].T @ np.eye(ACTIVITIES)[y[:half]])
    return float(((feats[half:] @ weights).argmax(1) == y[half:]).mean())


def main(steps=32, batch_size=32, probe_every=8):
    torch.manual_seed(13)
    rng = np.random.default_rng(13)
    device = torch_xla.device()
    windows, _ = synthetic_windows(1024, seed=1)
    probe_x, probe_y = synthetic_windows(256, seed=2)
    ops = [negate, reverse_time, cycle_axes, smooth, remove_gravity, swap_halves, soft_clip]
    augment = RandomPolicy(ops, num_ops=2, seed=13)

    encoder, projector = Encoder().to(device), Projector().to(device)
    optimizer = torch.optim.SGD([*encoder.parameters(), *projector.parameters()], lr=0.1)
    for step in range(1, steps + 1):
        rows = rng.integers(0, len(windows), batch_size)
        noise = rng.normal(0, 0.05, (batch_size, NUM_AXES, WINDOW)).astype(np.float32)
        batch = torch.from_numpy(windows[rows] + noise).to(device)
        views = torch.cat([augment(batch), augment(batch)])
        loss = nt_xent(projector(encoder(views)), temperature=0.2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if step % probe_every == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}  probe accuracy {probe(encoder, probe_x, probe_y, device):.3f}")


if __name__ == "__main__":
    main()
