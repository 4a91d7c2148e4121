"""Neural cellular automaton that grows a small emblem from one seed cell and
keeps it stable (sample pool, stochastic cell updates, persistent training)."""
import random
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

cfg = SimpleNamespace(
    size=12, channels=8, hidden=24, pool=64, batch=4,
    min_steps=4, max_steps=9, iters=36, lr=2e-3, fire_rate=0.5,
    report=4, seed=19,
)


def emblem(size):
    """A ring with a bar, RGBA."""
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    r = ((yy - size / 2 + 0.5) ** 2 + (xx - size / 2 + 0.5) ** 2).sqrt()
    ring = ((r > size * 0.25) & (r < size * 0.42)).float()
    bar = ((yy - size // 2).abs() <= 1).float() * (r < size * 0.42)
    alpha = torch.maximum(ring, bar)
    return torch.stack([ring, bar, 0.3 * alpha, alpha])


class Perceive(nn.Module):
    def __init__(self, channels):
        super().__init__()
        sx = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
        ident = torch.zeros(3, 3)
        ident[1, 1] = 1.0
        bank = torch.stack([ident, sx, sx.t()]).repeat(channels, 1, 1).unsqueeze(1)
        self.register_buffer("bank", bank)
        self.channels = channels

    def forward(self, x):
        return F.conv2d(x, self.bank, padding=1, groups=self.channels)


class Automaton(nn.Module):
    def __init__(self, channels, hidden, fire_rate):
        super().__init__()
        self.perceive = Perceive(channels)
        self.rule = nn.Sequential(
            nn.Conv2d(channels * 3, hidden, 1), nn.ReLU(), nn.Conv2d(hidden, channels, 1, bias=False))
        nn.init.zeros_(self.rule[-1].weight)
        self.fire_rate = fire_rate

    def forward(self, x):
        fire = (torch.rand_like(x[:, :1]) < self.fire_rate).to(x.dtype)
        return x + self.rule(self.perceive(x)) * fire


class SamplePool:
    def __init__(self, n, channels, size):
        self.seed = torch.zeros(channels, size, size)
        self.seed[3:, size // 2, size // 2] = 1.0
        self.cells = self.seed.repeat(n, 1, 1, 1)

    def draw(self, k):
        idx = torch.randperm(len(self.cells))[:k]
        batch = self.cells[idx].clone()
        batch[0] = self.seed
        return idx, batch

    def put(self, idx, states):
        self.cells[idx] = states


class History:
    """Loss trace kept on the device; the report fits its slope in log space."""

    def __init__(self):
        self.trace = []

    def push(self, loss):
        self.trace.append(loss.detach())

    def summary(self):
        y = torch.stack(self.trace).clamp(min=1e-8).log()
        t = torch.linspace(-1, 1, len(self.trace), device=y.device)
        slope = (t * (y - y.mean())).sum() / (t * t).sum()
        return torch.stack([y[-1].exp(), slope]).tolist()


def main():
    random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    target = emblem(cfg.size).to(device)
    ca = Automaton(cfg.channels, cfg.hidden, cfg.fire_rate).to(device)
    opt = torch.optim.Adam(ca.parameters(), lr=cfg.lr)
    pool = SamplePool(cfg.pool, cfg.channels, cfg.size)
    history = History()

    for it in range(1, cfg.iters + 1):
        idx, cells = pool.draw(cfg.batch)
        x = cells.to(device)
        for _ in range(random.randint(cfg.min_steps, cfg.max_steps)):
            x = ca(x)
        loss = F.mse_loss(x[:, :4], target.expand(cfg.batch, -1, -1, -1))
        opt.zero_grad()
        loss.backward()
        for p in ca.parameters():
            p.grad /= p.grad.norm() + 1e-8
        opt.step()
        history.push(loss)
        xm.mark_step()
        pool.put(idx, x.detach().cpu())

        if it % cfg.report == 0:
            last, slope = history.summary()
            print(f"iter {it:3d}  loss {last:.4f}  log-slope {slope:+.3f}")


if __name__ == "__main__":
    main()
