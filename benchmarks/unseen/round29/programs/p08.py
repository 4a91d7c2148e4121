"""Growing neural cellular automaton: learn a local rule that grows a ring from a single seed cell."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

params = {
    "channels": 8,
    "hidden": 32,
    "size": 12,
    "pool": 64,
    "batch": 4,
    "fire_rate": 0.5,
    "grow": (5, 12),
    "iterations": 60,
    "lr": 2e-3,
}


def ring_target(size):
    yy, xx = np.mgrid[0:size, 0:size] - (size - 1) / 2
    r = np.sqrt(yy ** 2 + xx ** 2)
    alpha = np.exp(-((r - size / 3.5) ** 2))
    rgb = np.stack([alpha, 0.5 * alpha * (xx > 0), 0.5 * alpha * (yy > 0)])
    return torch.from_numpy(np.concatenate([rgb, alpha[None]]).astype(np.float32))


class CA(nn.Module):

    def __init__(self, channels, hidden, fire_rate):
        super().__init__()
        self.fire_rate = fire_rate
        ident = torch.tensor([[0., 0, 0], [0, 1, 0], [0, 0, 0]])
        sobel = torch.tensor([[-1., 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
        kernel = torch.stack([ident, sobel, sobel.t()])[:, None].repeat(channels, 1, 1, 1)
        self.register_buffer("kernel", kernel)
        self.rule = nn.Sequential(nn.Conv2d(3 * channels, hidden, 1), nn.ReLU(), nn.Conv2d(hidden, channels, 1, bias=False))
        nn.init.zeros_(self.rule[-1].weight)

    def forward(self, x):
        seen = F.conv2d(x, self.kernel, padding=1, groups=x.shape[1])
        update = self.rule(seen)
        fire = (torch.rand(x.shape[0], 1, *x.shape[2:], device=x.device) < self.fire_rate).float()
        return x + update * fire


class SamplePool:

    def __init__(self, n, channels, size):
        self.seed = np.zeros((channels, size, size), np.float32)
        self.seed[3:, size // 2, size // 2] = 1.0
        self.x = np.repeat(self.seed[None], n, 0)

    def sample(self, k):
        idx = np.random.choice(len(self.x), k, replace=False)
        return idx, self.x[idx].copy()

    def commit(self, idx, value):
        self.x[idx] = value


def run(p):
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    device = xm.xla_device()
    target = ring_target(p["size"]).to(device)
    ca = CA(p["channels"], p["hidden"], p["fire_rate"]).to(device)
    opt = torch.optim.Adam(ca.parameters(), lr=p["lr"])
    pool = SamplePool(p["pool"], p["channels"], p["size"])

    for it in range(p["iterations"]):
        idx, batch = pool.sample(p["batch"])
        # restart the worst one from the seed
        worst = np.square(batch[:, :4]).sum((1, 2, 3)).argmax()
        batch[worst] = pool.seed
        x = torch.from_numpy(batch).to(device)
        n = random.randint(*p["grow"])
        for _ in range(n):
            x = ca(x)
        loss = F.mse_loss(x[:, :4], target.expand(p["batch"], -1, -1, -1))
        opt.zero_grad()
        loss.backward()
        for w in ca.parameters():
            w.grad /= w.grad.norm() + 1e-8
        xm.optimizer_step(opt, barrier=True)
        pool.commit(idx, x.detach().cpu().numpy())
        if it % 10 == 0:
            print(f"it {it:3d} grown {n:2d} loss {loss.item():.5f}")


if __name__ == "__main__":
    run(params)
