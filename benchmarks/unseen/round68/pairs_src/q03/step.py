"""Density of jet constituents with affine couplings."""
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.debug.metrics as met


class Coupling(nn.Module):
    def __init__(self, dim, ctx, width, parity):
        super().__init__()
        self.half = dim // 2
        self.parity = parity
        self.net = nn.Sequential(
            nn.Linear(self.half + ctx, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, 2 * (dim - self.half)))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x, ctx):
        a, b = x[:, :self.half], x[:, self.half:]
        if self.parity:
            a, b = b, a
        s, t = self.net(torch.cat([a, ctx], dim=1)).chunk(2, dim=1)
        s = 2.0 * torch.tanh(s / 2.0)
        b = b * s.exp() + t
        y = torch.cat([b, a] if self.parity else [a, b], dim=1)
        return y, s.sum(dim=1)


class Mix(nn.Module):
    """Householder rotation."""

    def __init__(self, dim):
        super().__init__()
        self.v = nn.Parameter(torch.randn(dim))

    def forward(self, x):
        v = self.v / self.v.norm()
        return x - 2.0 * (x @ v)[:, None] * v


class JetFlow(nn.Module):
    def __init__(self, dim=6, n_class=4, width=20, depth=2):
        super().__init__()
        self.kind = nn.Embedding(n_class, 5)
        self.shift = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.mixes = nn.ModuleList(Mix(dim) for _ in range(depth))
        self.couplings = nn.ModuleList(Coupling(dim, 5, width, i % 2) for i in range(depth))

    def log_prob(self, x, kind):
        ctx = self.kind(kind)
        z = (x - self.shift) * self.log_scale.exp()
        ld = self.log_scale.sum()
        for mix, c in zip(self.mixes, self.couplings):
            z, d = c(mix(z), ctx)
            ld = ld + d
        return ld - 0.5 * (z ** 2).sum(1) - 0.5 * z.shape[1] * math.log(2 * math.pi)


def fake_jets(n, gen):
    kind = torch.randint(0, 4, (n,), generator=gen)
    base = torch.randn(n, 6, generator=gen)
    x = torch.cat([base[:, :3].exp().log1p(), base[:, 3:] + 0.3 * kind[:, None]], dim=1)
    return x, kind


def main():
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(5)
    device = torch_xla.device()
    flow = JetFlow().to(device)
    opt = torch.optim.RAdam(flow.parameters(), lr=1e-3, betas=(0.9, 0.99))
    torch_xla.sync()
    for step in range(9):
        x, kind = fake_jets(32, gen)
        opt.zero_grad()
        nll = -flow.log_prob(x.to(device), kind.to(device)).mean()
        nll.backward()
        opt.step()
        torch_xla.sync()
        print(step, met.counter_value("UncachedCompile") or 0)


if __name__ == "__main__":
    main()
