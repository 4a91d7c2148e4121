"""Density estimation on sensor readings with a RealNVP flow."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla


class CouplingNet(nn.Module):
    def __init__(self, d_in, d_out, hidden):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(d_in, hidden), nn.Tanh(),
            nn.Linear(hidden, 2 * d_out),
        )
        self.log_gain = nn.Parameter(torch.zeros(d_out))

    def forward(self, x):
        s, t = self.net(x).chunk(2, dim=-1)
        return torch.tanh(s) * self.log_gain.exp(), t


class AffineCoupling(nn.Module):
    def __init__(self, dim, hidden, swap):
        super().__init__()
        self.d1 = dim // 2
        self.swap = swap
        d_cond, d_tr = (dim - self.d1, self.d1) if swap else (self.d1, dim - self.d1)
        self.cond = CouplingNet(d_cond, d_tr, hidden)

    def forward(self, x):
        a, b = x[:, : self.d1], x[:, self.d1 :]
        if self.swap:
            s, t = self.cond(b)
            a = a * torch.exp(s) + t
        else:
            s, t = self.cond(a)
            b = b * torch.exp(s) + t
        return torch.cat([a, b], dim=1), s.sum(-1)


class ElementwiseScale(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return x * self.log_scale.exp(), self.log_scale.sum().expand(x.shape[0])


class Flow(nn.Module):
    def __init__(self, dim=7, hidden=24, depth=3):
        super().__init__()
        layers = []
        for k in range(depth):
            layers += [ElementwiseScale(dim), AffineCoupling(dim, hidden, swap=bool(k % 2))]
        self.layers = nn.ModuleList(layers)
        self.dim = dim

    def log_prob(self, x):
        logdet = x.new_zeros(x.shape[0])
        for layer in self.layers:
            x, ld = layer(x)
            logdet = logdet + ld
        base = -0.5 * (x * x).sum(-1) - 0.5 * self.dim * math.log(2 * math.pi)
        return base + logdet


def readings(n, seed):
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 2 * np.pi, n)
    r = 1 + 0.2 * rng.normal(size=n)
    cols = [r * np.cos(t), r * np.sin(t), t / np.pi - 1, np.abs(rng.normal(size=n)),
            rng.exponential(0.7, n), r, rng.normal(size=n) * np.cos(t)]
    x = np.stack(cols, 1)
    return ((x - x.mean(0)) / x.std(0)).astype(np.float32)


def main(steps=12, batch=64):
    torch.manual_seed(0)
    device = torch_xla.device()
    flow = Flow().to(device)
    opt = torch.optim.RAdam(flow.parameters(), lr=2e-3)
    data = torch.from_numpy(readings(2048, 0))
    torch_xla.sync()

    gen = torch.Generator().manual_seed(1)
    for step in range(steps):
        idx = torch.randint(0, len(data), (batch,), generator=gen)
        x = (data[idx] + 0.01 * torch.randn(batch, data.shape[1], generator=gen)).to(device)
        opt.zero_grad()
        nll = -flow.log_prob(x).mean()
        nll.backward()
        nn.utils.clip_grad_value_(flow.parameters(), 5.0)
        opt.step()
        torch_xla.sync()
        print(f"{step:4d} nll {nll.item():.4f}")


if __name__ == "__main__":
    main()
