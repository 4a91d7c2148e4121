"""N-HiTS style forecaster with multi-rate pooling."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class HiTSBlock(nn.Module):
    def __init__(self, lookback, horizon, pool, knots, width):
        super().__init__()
        self.horizon, self.lookback = horizon, lookback
        self.pool = nn.AvgPool1d(pool, stride=pool)
        self.fc1 = nn.Linear(lookback // pool, width)
        self.fc2 = nn.Linear(width, width)
        self.theta = nn.Linear(width, lookback + knots)
        self.register_buffer("basis", self._interp(knots, horizon))

    @staticmethod
    def _interp(knots, horizon):
        pos = torch.linspace(0, knots - 1, horizon)
        lo = pos.floor().clamp(max=knots - 2).long()
        frac = pos - lo
        w = torch.zeros(knots, horizon)
        w[lo, torch.arange(horizon)] = 1 - frac
        w[lo + 1, torch.arange(horizon)] += frac
        return w

    def forward(self, x):
        h = self.pool(x.unsqueeze(1)).squeeze(1)
        h = F.relu(self.fc2(F.relu(self.fc1(h))))
        th = self.theta(h)
        back, knots = th[:, : self.lookback], th[:, self.lookback:]
        return back, knots @ self.basis


class HiTS(nn.Module):
    def __init__(self, lookback=32, horizon=8, width=24, spec=((4, 2), (2, 4), (1, 8))):
        super().__init__()
        self.blocks = nn.ModuleList(HiTSBlock(lookback, horizon, p, k, width) for p, k in spec)

    def forward(self, x):
        scale = x.abs().mean(-1, keepdim=True) + 1e-2
        res = x / scale
        out = 0.0
        for blk in self.blocks:
            b, f = blk(res)
            res = res - b
            out = out + f
        return out * scale


def mase(pred, y, hist, m=8):
    denom = (hist[:, m:] - hist[:, :-m]).abs().mean(-1, keepdim=True)
    return ((pred - y).abs() / (denom + 1e-3)).mean()


def windows(rng, n, length):
    t0 = rng.uniform(0, 50, (n, 1))
    t = t0 + np.arange(length)[None]
    s = np.sin(2 * np.pi * t / 8) + 0.05 * t + 0.1 * rng.normal(size=(n, length))
    return s.astype(np.float32)


def fit(steps=9, batch=12, lookback=32, horizon=8):
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    dev = torch_xla.device()
    net = HiTS(lookback, horizon).to(dev)
    opt = torch.optim.RAdam(net.parameters(), lr=2e-3, betas=(0.9, 0.999), weight_decay=1e-4)
    torch_xla.sync()
    for i in range(steps):
        w = torch.from_numpy(windows(rng, batch, lookback + horizon)).to(dev)
        hist, fut = w[:, :lookback], w[:, lookback:]
        loss = mase(net(hist), fut, hist)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, f"{loss.item():.4f}")


if __name__ == "__main__":
    fit()
