"""Momentum-contrast pretraining for machine vibration snippets.

Two random views of the same accelerometer window form a positive pair; keys
of earlier batches are kept in a ring of negatives.  Every few dozen steps a
nearest-neighbour probe checks whether fault classes separate.
"""
import argparse
import logging

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
log = logging.getLogger("vibcon")


def parse_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=70)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--ring", type=int, default=1024)
    ap.add_argument("--dim", type=int, default=24)
    ap.add_argument("--window", type=int, default=64)
    ap.add_argument("--key-momentum", type=float, default=0.99)
    ap.add_argument("--temperature", type=float, default=0.2)
    ap.add_argument("--probe-every", type=int, default=25)
    return ap.parse_args()


class VibrationSource:
    """Synthetic bearings: four fault classes, each with its own harmonics."""

    def __init__(self, window, seed=11):
        self.rng = np.random.default_rng(seed)
        self.window = window
        self.freqs = np.array([3.0, 5.0, 8.0, 13.0])

    def draw(self, n):
        y = self.rng.integers(0, len(self.freqs), n)
        t = np.linspace(0, 1, self.window)
        phase = self.rng.uniform(0, 2 * np.pi, (n, 1))
        x = np.sin(2 * np.pi * self.freqs[y][:, None] * t + phase)
        x += 0.3 * np.sin(4 * np.pi * self.freqs[y][:, None] * t)
        return x.astype(np.float32), y

    def view(self, x):
        gain = self.rng.uniform(0.7, 1.3, (len(x), 1))
        noisy = gain * x + self.rng.normal(0, 0.2, x.shape)
        return torch.from_numpy(noisy.astype(np.float32)).unsqueeze(1)


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 12, 7, stride=2, padding=3), nn.ReLU(),
            nn.Conv1d(12, 24, 5, stride=2, padding=2), nn.ReLU(),
        )
        self.proj = nn.Linear(24, dim)

    def forward(self, x):
        return F.normalize(self.proj(self.conv(x).amax(-1)), dim=-1)


class MomentumContrast(nn.Module):
    def __init__(self, dim, ring, m, tau):
        super().__init__()
        self.query, self.key = Encoder(dim), Encoder(dim)
        self.key.load_state_dict(self.query.state_dict())
        for p in self.key.parameters():
            p.requires_grad_(False)
        self.register_buffer("negatives", F.normalize(torch.randn(ring, dim), dim=-1))
        self.head = 0
        self.m, self.tau = m, tau

    @torch.no_grad()
    def follow(self):
        for pk, pq in zip(self.key.parameters(), self.query.parameters()):
            pk.mul_(self.m).add_(pq, alpha=1.0 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        self.negatives[self.head:self.head + n] = keys
        self.head = (self.head + n) % self.negatives.shape[0]

    def forward(self, a, b):
        q = self.query(a)
        with torch.no_grad():
            self.follow()
            k = self.key(b)
        pos = (q * k).sum(-1, keepdim=True)
        neg = q @ self.negatives.clone().t()
        logits = torch.cat([pos, neg], dim=1) / self.tau
        target = torch.zeros(q.shape[0], dtype=torch.long, device=q.device)
        self.enqueue(k)
        return F.cross_entropy(logits, target)


@torch.no_grad()
def neighbour_probe(model, ref, ref_y, qry, qry_y):
    sim = model.query(qry) @ model.query(ref).t()
    hit = ref_y[sim.argmax(-1)] == qry_y
    return hit.float().mean().item()


def main():
    args = parse_args()
    torch.manual_seed(5)
    device = torch_xla.device()
    src = VibrationSource(args.window)
    model = MomentumContrast(args.dim, args.ring, args.key_momentum, args.temperature).to(device)
    opt = torch.optim.SGD(model.query.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    probe = []
    for _ in range(2):
        x, y = src.draw(128)
        probe += [torch.from_numpy(x).unsqueeze(1).to(device), torch.from_numpy(y).to(device)]
    torch_xla.sync()

    for step in range(args.steps):
        x, _ = src.draw(args.batch)
        a, b = src.view(x).to(device), src.view(x).to(device)
        opt.zero_grad()
        loss = model(a, b)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 10 == 0:
            log.info("step %3d  nce %.4f", step, loss.item())
        if (step + 1) % args.probe_every == 0:
            log.info("step %3d  1-nn %.3f", step, neighbour_probe(model, *probe))


if __name__ == "__main__":
    main()
