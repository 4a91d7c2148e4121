import copy
import math
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

# Consistency training from scratch on a 2-D mixture (swiss roll + ring).
SIGMA_MIN, SIGMA_MAX, RHO, SIGMA_DATA = 0.002, 20.0, 7.0, 0.5
S0, S1, MU0 = 2, 90, 0.9
BATCH, HID = 128, 48
STEPS = 32


def draw(rng, n):
    kind = rng.random(n) < 0.5
    t = 1.5 * np.pi * (1 + 2 * rng.random(n))
    roll = np.stack([t * np.cos(t), t * np.sin(t)], 1) / 14.0
    a = 2 * np.pi * rng.random(n)
    ring = np.stack([np.cos(a), np.sin(a)], 1) * 0.9
    x = np.where(kind[:, None], roll, ring) + 0.02 * rng.normal(size=(n, 2))
    return torch.from_numpy(x.astype(np.float32))


class FourierTime(nn.Module):
    def __init__(self, n=8):
        super().__init__()
        self.register_buffer("freq", torch.randn(n) * 2.0)
        self.lin = nn.Linear(2 * n, HID)

    def forward(self, sigma):
        ang = 0.25 * sigma.log()[:, None] * self.freq
        return self.lin(torch.cat([ang.sin(), ang.cos()], 1))


class ConsistencyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = FourierTime()
        self.inp = nn.Linear(2, HID)
        self.mid = nn.ModuleList(nn.Linear(HID, HID) for _ in range(2))
        self.out = nn.Linear(HID, 2)

    def forward(self, x, sigma):
        s = sigma[:, None]
        c_in = 1.0 / (s ** 2 + SIGMA_DATA ** 2).sqrt()
        c_skip = SIGMA_DATA ** 2 / ((s - SIGMA_MIN) ** 2 + SIGMA_DATA ** 2)
        c_out = SIGMA_DATA * (s - SIGMA_MIN) * c_in
        h = self.inp(c_in * x)
        e = self.time(sigma)
        for lin in self.mid:
            h = h + F.silu(lin(h + e))
        return c_skip * x + c_out * self.out(h)


class Discretization:
    """N(k) and mu(k) from the paper, Karras spacing of the boundaries."""

    def __init__(self, total, device):
        self.total = total
        self.device = device

    def scales(self, k):
        frac = k / self.total * ((S1 + 1) ** 2 - S0 ** 2) + S0 ** 2
        return int(math.ceil(math.sqrt(frac) - 1) + 1)

    def ema_rate(self, n):
        return math.exp(S0 * math.log(MU0) / n)

    def boundaries(self, n):
        lo, hi = SIGMA_MIN ** (1 / RHO), SIGMA_MAX ** (1 / RHO)
        ramp = torch.linspace(0, 1, n, device=self.device)
        return (lo + ramp * (hi - lo)) ** RHO


def pseudo_huber(a, b, c=0.01):
    return ((a - b).pow(2).sum(1) + c ** 2).sqrt() - c


@torch.no_grad()
def one_step_samples(net, n, device):
    sigma = torch.full((n,), SIGMA_MAX, device=device)
    x = net(torch.randn(n, 2, device=device) * SIGMA_MAX, sigma)
    torch_xla.sync()
    return x.cpu()


def train():
    torch.manual_seed(4)
    rng = np.random.default_rng(4)
    device = torch_xla.device()
    net = ConsistencyNet().to(device)
    teacher = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.SGD(net.parameters(), lr=2e-2, momentum=0.9)
    disc = Discretization(STEPS, device)
    running = torch.zeros((), device=device)
    torch_xla.sync()

    for step in range(STEPS):
        x0 = draw(rng, BATCH).to(device)
        n = disc.scales(step)
        sigmas = disc.boundaries(n)
        u = torch.rand(BATCH, device=device)
        i = (u * (n - 1)).floor().long().clamp(max=n - 2)
        t_lo, t_hi = sigmas[i], sigmas[i + 1]
        z = torch.randn_like(x0)
        pred = net(x0 + t_hi[:, None] * z, t_hi)
        with torch.no_grad():
            goal = teacher(x0 + t_lo[:, None] * z, t_lo)
        loss = pseudo_huber(pred, goal).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        mu = disc.ema_rate(n)
        with torch.no_grad():
            for p, t in zip(net.parameters(), teacher.parameters()):
                t.mul_(mu).add_(p, alpha=1 - mu)
            running.mul_(0.95).add_(loss.detach(), alpha=0.05)
        torch_xla.sync()
        if (step + 1) % 8 == 0:
            x = one_step_samples(teacher, 64, device)
            print(f"step {step + 1} N {n} loss {running.item():.4f} radius {x.norm(dim=1).mean().item():.3f}")


if __name__ == "__main__":
    train()
