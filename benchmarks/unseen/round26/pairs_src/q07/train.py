"""Growing neural cellular automaton (toy size)."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

CHANNELS = 8
GRID = 10
POOL = 16
BATCH = 4
ROLLOUT = (3, 6)
FIRE_RATE = 0.5


class CA(nn.Module):
    def __init__(self, channels, hidden=20):
        super().__init__()
        ident = torch.tensor([[0., 0., 0.], [0., 1., 0.], [0., 0., 0.]])
        sobel = torch.tensor([[-1., 0., 1.], [-2., 0., 2.], [-1., 0., 1.]]) / 8
        kernel = torch.stack([ident, sobel, sobel.t()])[:, None].repeat(channels, 1, 1, 1)
        self.register_buffer("kernel", kernel)
        self.channels = channels
        self.w1 = nn.Conv2d(3 * channels, hidden, 1)
        self.w2 = nn.Conv2d(hidden, channels, 1, bias=False)
        nn.init.zeros_(self.w2.weight)

    def alive(self, x):
        return F.max_pool2d(x[:, 3:4], 3, stride=1, padding=1) > 0.1

    def tick(self, x):
        pre = self.alive(x)
        y = F.conv2d(x, self.kernel, padding=1, groups=self.channels)
        dx = self.w2(F.relu(self.w1(y)))
        fire = (torch.rand_like(x[:, :1]) < FIRE_RATE).to(x.dtype)
        x = x + dx * fire
        return x * (pre & self.alive(x)).to(x.dtype)

    def forward(self, x, n):
        for _ in range(n):
            x = self.tick(x)
        return x


def seed_state(n):
    x = np.zeros((n, CHANNELS, GRID, GRID), np.float32)
    x[:, 3:, GRID // 2, GRID // 2] = 1.0
    return x


def target_image():
    yy, xx = np.mgrid[:GRID, :GRID] - GRID / 2 + 0.5
    disc = (yy ** 2 + xx ** 2 < (GRID / 3) ** 2).astype(np.float32)
    return np.stack([disc, 0.5 * disc, 1 - disc, disc])


class SamplePool:
    def __init__(self, size, rng):
        self.states, self.rng = seed_state(size), rng

    def draw(self, n):
        self.idx = self.rng.choice(len(self.states), n, replace=False)
        out = self.states[self.idx].copy()
        out[0] = seed_state(1)[0]
        return torch.from_numpy(out)

    def commit(self, batch):
        self.states[self.idx] = batch


def normalise_grads(params):
    for p in params:
        p.grad.div_(p.grad.norm() + 1e-8)


def main(iterations=7):
    random.seed(4)
    torch.manual_seed(4)
    dev = xm.xla_device()
    ca = CA(CHANNELS).to(dev)
    params = list(ca.parameters())
    opt = torch.optim.RMSprop(params, lr=2e-3, alpha=0.95)
    goal = torch.from_numpy(target_image()).to(dev)
    pool = SamplePool(POOL, np.random.default_rng(4))
    xm.mark_step()

    for it in range(iterations):
        x = pool.draw(BATCH).to(dev)
        n = random.randint(*ROLLOUT)
        x = ca(x, n)
        per_sample = (x[:, :4] - goal).pow(2).mean(dim=(1, 2, 3))
        loss = per_sample.mean()
        opt.zero_grad()
        loss.backward()
        normalise_grads(params)
        opt.step()
        xm.mark_step()
        pool.commit(x.detach().cpu().numpy())
        print(f"it {it} ticks {n} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
