"""Prototypical networks on synthetic spectra, episodes in the style of Meta-Dataset."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BANDS, WAY, QUERY = 48, 5, 6


class SpectraUniverse:
    """Many substances, each a sum of a few absorption lines; a measurement shifts and scales them."""

    def __init__(self, n_classes, rng):
        self.rng = rng
        self.centers = rng.uniform(4, BANDS - 4, (n_classes, 4))
        self.widths = rng.uniform(0.8, 3.0, (n_classes, 4))
        self.depths = rng.uniform(0.3, 1.0, (n_classes, 4))

    def measure(self, c, n):
        axis = np.arange(BANDS)[None, None]
        shift = self.rng.normal(0, 0.4, (n, 1, 1))
        lines = np.exp(-0.5 * ((axis - self.centers[c][None, :, None] - shift) / self.widths[c][None, :, None]) ** 2)
        x = (self.depths[c][None, :, None] * lines).sum(1) * self.rng.uniform(0.8, 1.2, (n, 1))
        return (x + self.rng.normal(0, 0.08, (n, BANDS))).astype(np.float32)


class EpisodeSampler:
    def __init__(self, universe, classes, max_support=60, rng=None):
        self.universe, self.classes, self.max_support, self.rng = universe, classes, max_support, rng

    def sample(self):
        ways = self.rng.choice(self.classes, WAY, replace=False)
        beta = self.rng.uniform(0.1, 1.0)
        shares = self.rng.dirichlet(np.ones(WAY) * 4)
        shots = np.maximum(1, np.ceil(beta * shares * self.max_support)).astype(int)
        sx = np.concatenate([self.universe.measure(c, k) for c, k in zip(ways, shots)])
        sy = np.repeat(np.arange(WAY), shots)
        qx = np.concatenate([self.universe.measure(c, QUERY) for c in ways])
        qy = np.repeat(np.arange(WAY), QUERY)
        return tuple(torch.from_numpy(a) for a in (sx, sy.astype(np.int64), qx, qy.astype(np.int64)))


class Embed(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, 8, 5, stride=2, padding=2), nn.GELU(), nn.Conv1d(8, 8, 5, stride=2, padding=2), nn.GELU())
        self.fc = nn.Linear(8 * (BANDS // 4), dim)

    def forward(self, x):
        return F.normalize(self.fc(self.conv(x[:, None]).flatten(1)), dim=1)


def prototypes(z, y, way):
    onehot = F.one_hot(y, way).float()
    return (onehot.t() @ z) / onehot.sum(0).clamp(min=1)[:, None]


class Distractors:
    """Class centres of earlier episodes, used as extra negatives for the queries."""

    def __init__(self, dim, device, limit=400):
        self.limit = limit
        self.rows = F.normalize(torch.randn(WAY, dim), dim=1).to(device)

    def logits(self, zq, scale):
        return scale * zq @ self.rows.t()

    def push(self, protos):
        rows = torch.cat([self.rows, F.normalize(protos.detach(), dim=1)])
        self.rows = rows[max(0, len(rows) - self.limit):]


class Learner(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.embed = Embed(dim)
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, sx, sy, qx):
        zs, zq = self.embed(sx), self.embed(qx)
        protos = prototypes(zs, sy, WAY)
        scale = self.log_scale.exp()
        return scale * zq @ F.normalize(protos, dim=1).t(), zq, protos, scale


@torch.no_grad()
def evaluate(model, episodes):
    model.eval()
    acc = [(model(sx, sy, qx)[0].argmax(1) == qy).float().mean() for sx, sy, qx, qy in episodes]
    xm.mark_step()
    model.train()
    return torch.stack(acc).mean().item()


def main(steps=36):
    rng = np.random.default_rng(4)
    torch.manual_seed(4)
    device = torch_xla.device()
    universe = SpectraUniverse(60, rng)
    train = EpisodeSampler(universe, np.arange(45), rng=rng)
    held = EpisodeSampler(universe, np.arange(45, 60), rng=rng)
    fixed = [tuple(t.to(device) for t in held.sample()) for _ in range(3)]
    model = Learner().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    memory = Distractors(16, device)

    for step in range(steps):
        sx, sy, qx, qy = (t.to(device) for t in train.sample())
        logits, zq, protos, scale = model(sx, sy, qx)
        full = torch.cat([logits, memory.logits(zq, scale)], 1)
        loss = F.cross_entropy(logits, qy) + 0.2 * F.cross_entropy(full, qy)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        memory.push(protos)
        xm.mark_step()
        if (step + 1) % 12 == 0:
            print(f"step {step + 1} loss {loss.item():.4f} held-out acc {evaluate(model, fixed):.3f}")


if __name__ == "__main__":
    main()
