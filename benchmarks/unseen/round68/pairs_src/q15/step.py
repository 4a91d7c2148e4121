"""Growing texture automaton trained from a sample pool."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.debug.metrics as met

CHANNELS = 8
SIZE = 12
POOL = 16
BATCH = 4
ROLLOUT = (2, 4)
OVERFLOW = 0.5


def perception_kernel(c):
    ident = torch.tensor([[0., 0, 0], [0, 1, 0], [0, 0, 0]])
    sx = torch.tensor([[-1., 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
    lap = torch.tensor([[1., 2, 1], [2, -12, 2], [1, 2, 1]]) / 16
    k = torch.stack([ident, sx, sx.t(), lap]).unsqueeze(1)
    return k.repeat(c, 1, 1, 1)


class Automaton(nn.Module):
    def __init__(self, channels=CHANNELS, hidden=24, fire_rate=0.5):
        super().__init__()
        self.fire_rate = fire_rate
        self.register_buffer("kernel", perception_kernel(channels))
        self.w1 = nn.Conv2d(4 * channels, hidden, 1)
        self.w2 = nn.Conv2d(hidden, channels, 1, bias=False)
        nn.init.normal_(self.w2.weight, std=0.02)

    def alive(self, x):
        return (F.max_pool2d(x[:, 3:4], 3, stride=1, padding=1) > 0.1).to(x.dtype)

    def update(self, x):
        pre = self.alive(x)
        y = F.conv2d(x, self.kernel, padding=1, groups=x.size(1))
        dx = self.w2(F.relu(self.w1(y)))
        fire = (torch.rand_like(x[:, :1]) < self.fire_rate).to(x.dtype)
        x = x + dx * fire
        return x * (pre * self.alive(x))

    def forward(self, x, n):
        for _ in range(n):
            x = self.update(x)
        return x


class SamplePool:
    def __init__(self):
        self.states = np.stack([self.seed() for _ in range(POOL)])

    @staticmethod
    def seed():
        s = np.zeros((CHANNELS, SIZE, SIZE), np.float32)
        s[3:, SIZE // 2 - 1:SIZE // 2 + 1, SIZE // 2 - 1:SIZE // 2 + 1] = 1
        return s

    def draw(self, rng):
        idx = rng.choice(POOL, BATCH, replace=False)
        batch = self.states[idx]
        batch[0] = self.seed()
        return idx, batch


def emblem():
    yy, xx = np.mgrid[:SIZE, :SIZE] - SIZE / 2 + 0.5
    disc = (xx ** 2 + yy ** 2 < 16).astype(np.float32)
    return torch.from_numpy(np.stack([disc * 0.8, disc * (xx > 0), disc * 0.3, disc]).astype(np.float32))


def objective(x, target):
    rec = ((x[:, :4] - target) ** 2).mean()
    overflow = (x - x.clamp(-2.0, 2.0)).abs().mean()
    return rec + OVERFLOW * overflow


def fit(iterations=12):
    random.seed(5)
    rng = np.random.default_rng(5)
    torch.manual_seed(5)
    device = torch_xla.device()
    ca = Automaton().to(device)
    target = emblem().to(device)
    opt = torch.optim.RAdam(ca.parameters(), lr=2e-3)
    pool = SamplePool()
    torch_xla.sync()
    for it in range(iterations):
        idx, x0 = pool.draw(rng)
        n = random.randint(*ROLLOUT)
        x = ca(torch.from_numpy(x0).to(device), n)
        loss = objective(x, target)
        opt.zero_grad()
        loss.backward()
        for p in ca.parameters():
            p.grad.div_(p.grad.norm() + 1e-8)
        opt.step()
        torch_xla.sync()
        pool.states[idx] = x.detach().cpu().numpy()
        print(f"it {it} n {n} loss {loss.item():.5f} graphs {met.counter_value('UncachedCompile') or 0}")


if __name__ == "__main__":
    fit()
