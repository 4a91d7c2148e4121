"""Noise-prediction MLP (DDPM on 2-d points) with stochastic depth per step."""
import argparse
import math
import random

import torch
import torch.nn as nn
import torch_xla


class ResBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.RMSNorm(d)
        self.fc1 = nn.Linear(d, 2 * d)
        self.temb = nn.Linear(d, 2 * d)
        self.fc2 = nn.Linear(2 * d, d)

    def forward(self, x, t):
        h = self.fc1(self.norm(x)) + self.temb(t)
        return self.fc2(nn.functional.mish(h))


class Denoiser(nn.Module):
    def __init__(self, d=32, depth=3, drop=0.3, gate=False):
        super().__init__()
        self.inp = nn.Linear(2, d)
        self.blocks = nn.ModuleList(ResBlock(d) for _ in range(depth))
        self.out = nn.Linear(d, 2)
        self.drop, self.gate, self.d = drop, gate, d

    def time(self, t):
        f = torch.exp(torch.arange(self.d // 2, device=t.device) * (-math.log(1e4) / (self.d // 2)))
        a = t[:, None] * f
        return torch.cat([a.sin(), a.cos()], 1)

    def forward(self, x, t, keep=None):
        h, te = self.inp(x), self.time(t)
        for i, blk in enumerate(self.blocks):
            if self.gate:
                h = h + keep[i] * blk(h, te)
            elif self.training and random.random() < self.drop:
                continue
            else:
                h = h + blk(h, te)
        return self.out(h)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--gate", action="store_true", help="multiply with a 0/1 tensor instead of skipping")
    a = ap.parse_args()
    random.seed(1)
    torch.manual_seed(1)
    dev = torch_xla.device()
    net = Denoiser(gate=a.gate).to(dev)
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    abar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)
    torch_xla.sync()
    for step in range(7):
        t = torch.randint(0, 100, (64,))
        x0, eps = torch.randn(64, 2), torch.randn(64, 2)
        s = abar[t][:, None]
        xt = (s.sqrt() * x0 + (1 - s).sqrt() * eps).to(dev)
        keep = (torch.rand(3) >= 0.3).float().to(dev) if a.gate else None
        opt.zero_grad(set_to_none=False)
        loss = (net(xt, t.float().to(dev), keep) - eps.to(dev)).pow(2).mean()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main()
