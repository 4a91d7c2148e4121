"""Growing neural cellular automaton: a seed cell grows into a small emblem and is
kept alive with a sample pool (after Mordvintsev et al.)."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 31
GRID = 16
CHANNELS = 8
POOL = 64
BATCH = 4
UPDATES = 18
MIN_ITERS, MAX_ITERS = 6, 26
FIRE_RATE = 0.5


def emblem():
    yy, xx = np.mgrid[0:GRID, 0:GRID]
    r = np.hypot(yy - GRID / 2 + 0.5, xx - GRID / 2 + 0.5)
    alpha = (r < 6).astype(np.float32)
    red = alpha * (r > 3.5)
    blue = alpha * (np.abs(xx - yy) < 2)
    return torch.from_numpy(np.stack([red, 0.3 * alpha, blue, alpha]).astype(np.float32))


def seed_state(n):
    x = torch.zeros(n, CHANNELS, GRID, GRID)
    x[:, 3:, GRID // 2, GRID // 2] = 1.0
    return x


class Automaton(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        ident = torch.tensor([[0.0, 0, 0], [0, 1, 0], [0, 0, 0]])
        sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
        kernel = torch.stack([ident, sobel, sobel.T]).repeat(CHANNELS, 1, 1).unsqueeze(1)
        self.register_buffer("kernel", kernel)
        self.hidden = nn.Conv2d(3 * CHANNELS, hidden, 1)
        self.out = nn.Conv2d(hidden, CHANNELS, 1, bias=False)
        nn.init.zeros_(self.out.weight)

    @staticmethod
    def alive(x):
        return F.max_pool2d(x[:, 3:4], 3, stride=1, padding=1) > 0.1

    def update(self, x):
        before = self.alive(x)
        seen = F.conv2d(x, self.kernel, padding=1, groups=CHANNELS)
        delta = self.out(F.relu(self.hidden(seen)))
        fire = (torch.rand_like(x[:, :1]) < FIRE_RATE).float()
        x = x + delta * fire
        return x * (before & self.alive(x)).float()

    def forward(self, x, iters):
        for _ in range(iters):
            x = self.update(x)
        return x


class SamplePool:
    def __init__(self, rng):
        self.states = seed_state(POOL)
        self.rng = rng

    def draw(self, target):
        idx = self.rng.choice(POOL, BATCH, replace=False)
        batch = self.states[idx]
        error = ((batch[:, :4] - target) ** 2).mean(dim=(1, 2, 3))
        batch[error.argmax()] = seed_state(1)[0]
        return idx, batch

    def put(self, idx, batch):
        self.states[idx] = batch


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()

    target = emblem()
    target_dev = target.to(device)
    model = Automaton().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    pool = SamplePool(rng)

    for step in range(UPDATES):
        idx, batch = pool.draw(target)
        x = batch.to(device)
        iters = int(rng.integers(MIN_ITERS, MAX_ITERS + 1))
        x = model(x, iters)
        loss = F.mse_loss(x[:, :4], target_dev.expand(BATCH, -1, -1, -1))

        optimizer.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.grad.div_(p.grad.norm() + 1e-8)
        optimizer.step()
        scheduler.step()
        x = x.detach()
        torch_xla.sync()

        pool.put(idx, x.cpu())
        if (step + 1) % 6 == 0:
            print(f"step {step + 1:3d}  log10 loss {np.log10(loss.item()):.3f}")


if __name__ == "__main__":
    main()
