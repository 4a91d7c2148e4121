"""Density estimation of jet observables with affine couplings (conditional RealNVP)."""
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

DIM, COND, HIDDEN, LAYERS = 8, 3, 32, 3
BATCH, STEPS, LR = 64, 4, 1e-3


class ConditionNet(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.fc1 = nn.Linear(d_in + COND, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, 2 * d_out)
        nn.init.normal_(self.fc2.weight, std=0.01)
        nn.init.zeros_(self.fc2.bias)

    def forward(self, x, c):
        h = torch.relu(self.fc1(torch.cat([x, c], 1)))
        return self.fc2(h)


class Coupling(nn.Module):
    def __init__(self, dim, swap):
        super().__init__()
        self.swap = swap
        self.half = dim // 2
        self.net = ConditionNet(self.half, dim - self.half)
        self.log_gain = nn.Parameter(torch.zeros(dim - self.half))

    def forward(self, x, c):
        a, b = x[:, :self.half], x[:, self.half:]
        if self.swap:
            a, b = b, a
        with torch.autocast("xla", dtype=torch.bfloat16):
            out = self.net(a, c)
        raw, shift = out.float().chunk(2, 1)
        s = torch.tanh(raw) * self.log_gain.exp()
        b = b * s.exp() + shift
        y = torch.cat([b, a] if self.swap else [a, b], 1)
        return y, s.sum(1)


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Coupling(DIM, i % 2 == 1) for i in range(LAYERS)])
        self.register_buffer("mean", torch.zeros(DIM))
        self.register_buffer("std", torch.ones(DIM))

    def log_prob(self, x, c):
        z = (x - self.mean) / self.std
        total = -self.std.log().sum()
        for layer in self.layers:
            z, logdet = layer(z, c)
            total = total + logdet
        base = -0.5 * (z.square().sum(1) + DIM * math.log(2 * math.pi))
        return base + total


def jets(gen):
    c = torch.rand(BATCH, COND, generator=gen)
    x = torch.randn(BATCH, DIM, generator=gen) * (0.5 + c[:, :1]) + c[:, 1:2]
    w = 0.5 + torch.rand(BATCH, generator=gen)
    return x, c, w


def main():
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(32)
    device = xm.xla_device()
    flow = Flow().to(device)
    opt = torch.optim.AdamW(flow.parameters(), lr=LR, weight_decay=1e-3, foreach=False)
    torch_xla.sync()
    for step in range(STEPS):
        x, c, w = (t.to(device) for t in jets(gen))
        logp = flow.log_prob(x, c)
        loss = -(w * logp).sum() / w.sum()
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(flow.parameters(), 10.0, foreach=False)
        opt.step()
        torch_xla.sync()
        print(step, round(loss.item(), 4), round(norm.item(), 4))


if __name__ == "__main__":
    main()
