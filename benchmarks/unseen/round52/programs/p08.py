"""Growing neural cellular automata with a sample pool.

The update rule learns to grow a small emblem from one seed cell and to repair
it: part of each batch is damaged, and the number of updates between target
comparisons is drawn from a short list so that the pattern has to be stable.
"""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SIZE = 16
CHANNELS = 10
POOL = 64
BATCH = 8
ROLLOUTS = (4, 6, 8)
STEPS = 48
DAMAGED = 2
FIRE_RATE = 0.5


def make_target():
    yy, xx = np.mgrid[-1:1:SIZE * 1j, -1:1:SIZE * 1j]
    r = np.sqrt(xx**2 + yy**2)
    alpha = ((r < 0.75) & (np.abs(xx * yy) < 0.2)).astype(np.float32)
    rgb = np.stack([0.5 + 0.5 * xx, 0.5 - 0.5 * yy, 1 - r.clip(0, 1)]).astype(np.float32)
    return torch.from_numpy(np.concatenate([rgb * alpha, alpha[None]]))


def seed_state(n):
    s = torch.zeros(n, CHANNELS, SIZE, SIZE)
    s[:, 3:, SIZE // 2, SIZE // 2] = 1.0
    return s


class CellRule(nn.Module):
    def __init__(self, channels, hidden=32):
        super().__init__()
        ident = torch.tensor([[0.0, 0, 0], [0, 1, 0], [0, 0, 0]])
        sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
        bank = torch.stack([ident, sobel, sobel.t()])
        self.register_buffer("bank", bank.repeat(channels, 1, 1).unsqueeze(1))
        self.channels = channels
        self.net = nn.Sequential(
            nn.Conv2d(3 * channels, hidden, 1), nn.ReLU(),
            nn.Conv2d(hidden, channels, 1, bias=False),
        )
        nn.init.zeros_(self.net[-1].weight)

    @staticmethod
    def alive(x):
        return F.max_pool2d(x[:, 3:4], 3, stride=1, padding=1) > 0.1

    def forward(self, x):
        before = self.alive(x)
        seen = F.conv2d(x, self.bank, padding=1, groups=self.channels)
        delta = self.net(seen)
        fire = (torch.rand_like(x[:, :1]) < FIRE_RATE).float()
        x = x + delta * fire
        living = (before & self.alive(x)).float()
        return x * living


class SamplePool:
    """Pool of states on the device; rows are picked and written back by index."""

    def __init__(self, size, device):
        self.rows = seed_state(size).to(device)
        self.size = size
        self.device = device

    def pick(self, n, rng):
        idx = torch.from_numpy(rng.choice(self.size, n, replace=False)).to(self.device)
        return idx, self.rows.index_select(0, idx)

    def put(self, idx, states):
        self.rows = self.rows.index_copy(0, idx, states.detach())


def damage_masks(n, rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    centre = rng.uniform(4, SIZE - 4, size=(n, 2, 1, 1))
    radius = rng.uniform(2, 4, size=(n, 1, 1))
    hole = (yy - centre[:, 0]) ** 2 + (xx - centre[:, 1]) ** 2 < radius**2
    return torch.from_numpy(1.0 - hole.astype(np.float32)).unsqueeze(1)


def main():
    random.seed(2)
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    device = torch_xla.device()

    target = make_target().to(device)
    fresh = seed_state(1).to(device)
    rule = CellRule(CHANNELS).to(device)
    opt = torch.optim.Adam(rule.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=20, gamma=0.3)
    pool = SamplePool(POOL, device)
    torch_xla.sync()

    for step in range(STEPS):
        idx, x = pool.pick(BATCH, rng)
        with torch.no_grad():
            per_row = (x[:, :4] - target).square().mean((1, 2, 3))
            order = per_row.argsort(descending=True)
            idx, x = idx[order], x[order]
            x = torch.cat([fresh, x[1:]])
            mask = torch.ones(BATCH, 1, SIZE, SIZE)
            mask[-DAMAGED:] = damage_masks(DAMAGED, rng)
            x = x * mask.to(device)

        for _ in range(random.choice(ROLLOUTS)):
            x = rule(x)
        loss = (x[:, :4] - target).square().mean()
        overflow = (x - x.clamp(-2.0, 2.0)).abs().mean()

        opt.zero_grad()
        (loss + overflow).backward()
        for p in rule.parameters():
            p.grad.div_(p.grad.norm() + 1e-8)
        opt.step()
        sched.step()
        pool.put(idx, x)
        torch_xla.sync()

        if step % 8 == 7:
            print(f"{step + 1:3d}  mse {loss.item():.4f}  overflow {overflow.item():.5f}")


if __name__ == "__main__":
    main()
