"""Conditional normalizing flow for calorimeter showers: layer energies given the incident energy."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

LAYERS = 8
BATCH = 32


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.ready = False

    def forward(self, x):
        if self.training and not self.ready:
            with torch.no_grad():
                self.bias.copy_(-x.mean(0))
                self.log_scale.copy_(-torch.log(x.std(0, unbiased=False) + 1e-5))
            self.ready = True
        return (x + self.bias) * self.log_scale.exp(), self.log_scale.sum()


class Coupling(nn.Module):
    def __init__(self, dim, cond, width=24):
        super().__init__()
        self.half = dim // 2
        self.w1 = nn.Parameter(torch.randn(self.half + cond, width) / math.sqrt(self.half + cond))
        self.b1 = nn.Parameter(torch.zeros(width))
        self.w2 = nn.Parameter(0.05 * torch.randn(width, 2 * (dim - self.half)))
        self.b2 = nn.Parameter(torch.zeros(2 * (dim - self.half)))

    def forward(self, x, c):
        a, b = x[:, :self.half], x[:, self.half:]
        h = F.leaky_relu(torch.cat([a, c], dim=1) @ self.w1 + self.b1, 0.1)
        shift, raw = (h @ self.w2 + self.b2).chunk(2, dim=1)
        log_s = 2.0 * torch.tanh(raw / 2.0)
        return torch.cat([b * log_s.exp() + shift, a], dim=1), log_s.sum(1)


class ShowerFlow(nn.Module):
    def __init__(self, dim=LAYERS, cond=1, depth=3):
        super().__init__()
        self.norms = nn.ModuleList(ActNorm(dim) for _ in range(depth))
        self.couplings = nn.ModuleList(Coupling(dim, cond) for _ in range(depth))

    def log_prob(self, x, c):
        total = x.new_zeros(x.size(0))
        for norm, coupling in zip(self.norms, self.couplings):
            x, ld = norm(x)
            total = total + ld
            x, ld = coupling(x, c)
            total = total + ld
        base = -0.5 * (x.pow(2).sum(1) + x.size(1) * math.log(2 * math.pi))
        return base + total


def showers(seed):
    g = torch.Generator().manual_seed(seed)
    energy = 10 ** (1 + 2 * torch.rand(BATCH, 1, generator=g))
    depth = torch.arange(LAYERS).float() + 0.5
    peak = 1.0 + 0.8 * energy.log()
    profile = depth ** (peak - 1) * torch.exp(-depth)
    profile = profile / profile.sum(1, keepdim=True)
    noisy = energy * profile * (1 + 0.1 * torch.randn(BATCH, LAYERS, generator=g)).clamp(min=0.05)
    return torch.log1p(noisy), energy.log10() - 2.0


def main():
    torch.manual_seed(3)
    device = xm.xla_device()
    flow = ShowerFlow().to(device).train()
    opt = torch.optim.Adagrad(flow.parameters(), lr=1e-2)
    torch_xla.sync()
    for step in range(4):
        x, c = (t.to(device) for t in showers(step))
        opt.zero_grad()
        loss = -flow.log_prob(x, c).mean()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, met.counter_value("UncachedCompile"), round(loss.item(), 3))


if __name__ == "__main__":
    main()
