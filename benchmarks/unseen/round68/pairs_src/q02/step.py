"""Reservoir inflow, several horizons at once, quantile heads over a gated temporal convolution."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.debug.metrics as met

HORIZONS = 6
QUANTILES = (0.1, 0.5, 0.9)


class RunningScale:
    """Welford over the target horizons; the loss is taken in scaled units."""

    def __init__(self, width, device):
        self.device = device
        self.n = 0
        self.m = np.zeros(width)
        self.s = np.zeros(width)
        self.loc = torch.zeros(width, device=device)
        self.scale = torch.ones(width, device=device)

    def observe(self, rows):
        for r in rows.numpy():
            self.n += 1
            d = r - self.m
            self.m += d / self.n
            self.s += d * (r - self.m)

    def refresh(self):
        std = np.sqrt(self.s / max(self.n - 1, 1)) + 1e-6
        self.loc = torch.from_numpy(self.m.copy()).to(self.device)
        self.scale = torch.from_numpy(std).to(self.device)

    def __call__(self, y):
        return (y - self.loc) / self.scale


class GatedConv(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(ch, 2 * ch, 3, dilation=dilation)
        self.mix = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        a, b = self.conv(F.pad(x, (self.pad, 0))).chunk(2, dim=1)
        return x + self.mix(torch.tanh(a) * torch.sigmoid(b))


class InflowNet(nn.Module):
    def __init__(self, n_in=5, n_basin=9, ch=12):
        super().__init__()
        self.stem = nn.Conv1d(n_in, ch, 1)
        self.basin = nn.Embedding(n_basin, ch)
        self.blocks = nn.ModuleList([GatedConv(ch, d) for d in (1, 3)])
        self.head = nn.Linear(ch, HORIZONS * len(QUANTILES))

    def forward(self, x, basin):
        h = self.stem(x) + self.basin(basin)[:, :, None]
        for b in self.blocks:
            h = b(h)
        q = self.head(F.elu(h[:, :, -1])).view(-1, HORIZONS, len(QUANTILES))
        return torch.cat([q[..., :1], q[..., :1] + F.softplus(q[..., 1:]).cumsum(-1)], dim=-1)


def pinball(q, y):
    total = 0.0
    for i, tau in enumerate(QUANTILES):
        e = y - q[..., i]
        total = total + torch.maximum(tau * e, (tau - 1) * e).mean()
    return total / len(QUANTILES)


def batches(n, rng):
    for _ in range(n):
        x = torch.from_numpy(rng.gamma(2.0, 1.0, size=(10, 5, 20)).astype("float32"))
        basin = torch.from_numpy(rng.integers(0, 9, size=10))
        y = torch.from_numpy(rng.gamma(3.0, 20.0, size=(10, HORIZONS)).astype("float32"))
        yield x, basin, y


def main():
    torch.manual_seed(1)
    rng = np.random.default_rng(11)
    device = torch_xla.device()
    net = InflowNet().to(device)
    opt = torch.optim.NAdam(net.parameters(), lr=2e-3)
    scale = RunningScale(HORIZONS, device)
    torch_xla.sync()
    for step, (x, basin, y) in enumerate(batches(8, rng)):
        scale.observe(y)
        opt.zero_grad()
        pred = net(x.to(device), basin.to(device))
        loss = pinball(pred, scale(y.to(device)))
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        torch_xla.sync()
        print(step, met.counter_value("UncachedCompile") or 0)
        if (step + 1) % 4 == 0:
            scale.refresh()


if __name__ == "__main__":
    main()
