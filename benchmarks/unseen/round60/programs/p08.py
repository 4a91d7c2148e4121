import argparse
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


def parse():
    p = argparse.ArgumentParser("N-BEATS on hourly load of feeders")
    p.add_argument("--feeders", type=int, default=12)
    p.add_argument("--hours", type=int, default=24 * 120)
    p.add_argument("--lookback", type=int, default=72)
    p.add_argument("--horizon", type=int, default=24)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=19)
    return p.parse_args()


def load_curves(feeders, hours, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    curves = []
    for _ in range(feeders):
        level = rng.uniform(20, 80)
        daily = rng.uniform(0.2, 0.5) * np.sin(2 * np.pi * (t - rng.uniform(6, 12)) / 24)
        evening = 0.15 * np.exp(-0.5 * (((t % 24) - 19) / 1.8) ** 2)
        weekend = -rng.uniform(0.05, 0.2) * ((t // 24) % 7 >= 5)
        drift = np.cumsum(rng.normal(scale=0.004, size=hours))
        curves.append(level * (1 + daily + evening + weekend + drift + 0.03 * rng.normal(size=hours)))
    return np.stack(curves).astype(np.float32)


class Block(nn.Module):
    def __init__(self, lookback, horizon, width, degree=None, harmonics=None):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(lookback, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        back = torch.arange(lookback) / lookback
        fore = torch.arange(horizon) / horizon
        if degree is not None:
            b = torch.stack([back ** i for i in range(degree + 1)])
            f = torch.stack([fore ** i for i in range(degree + 1)])
        else:
            k = torch.arange(1, harmonics + 1)[:, None] * 2 * np.pi
            b = torch.cat([torch.cos(k * back), torch.sin(k * back)])
            f = torch.cat([torch.cos(k * fore), torch.sin(k * fore)])
        self.register_buffer("b_basis", b.float())
        self.register_buffer("f_basis", f.float())
        self.theta_b = nn.Linear(width, b.size(0), bias=False)
        self.theta_f = nn.Linear(width, f.size(0), bias=False)

    def forward(self, x):
        h = self.fc(x)
        return self.theta_b(h) @ self.b_basis, self.theta_f(h) @ self.f_basis


class NBeats(nn.Module):
    def __init__(self, lookback, horizon, width=32):
        super().__init__()
        self.blocks = nn.ModuleList([
            Block(lookback, horizon, width, degree=2),
            Block(lookback, horizon, width, harmonics=6),
            Block(lookback, horizon, width, harmonics=10),
        ])

    def forward(self, x):
        forecast = 0.0
        for blk in self.blocks:
            back, fore = blk(x)
            x = x - back
            forecast = forecast + fore
        return forecast


class WindowSampler:
    """Keeps all curves on the device; windows are drawn over feeders and start hours."""

    def __init__(self, curves, args, device):
        self.curves = torch.from_numpy(curves).to(device)
        self.rng = np.random.default_rng(args.seed + 1)
        self.lookback, self.horizon, self.batch = args.lookback, args.horizon, args.batch

    def draw(self):
        last = self.curves.size(1) - self.lookback - self.horizon
        feeders = self.rng.integers(self.curves.size(0), size=self.batch)
        starts = self.rng.integers(last, size=self.batch)
        x = torch.stack([self.curves[f, s:s + self.lookback] for f, s in zip(feeders, starts)])
        y = torch.stack([self.curves[f, s + self.lookback:s + self.lookback + self.horizon]
                         for f, s in zip(feeders, starts)])
        return x, y


def normalize(x, y):
    loc = x.mean(1, keepdim=True)
    scale = x.std(1, keepdim=True) + 1e-3
    return (x - loc) / scale, (y - loc) / scale, scale


def quantile_weighted(pred, y, tau=0.6):
    # an underestimated peak costs more than an overestimated one
    err = y - pred
    return torch.maximum(tau * err, (tau - 1.0) * err).mean()


@torch.no_grad()
def backtest(model, recent, args):
    x, y, scale = normalize(recent[:, :args.lookback], recent[:, args.lookback:])
    return ((model(x) - y).abs() * scale).mean()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    device = torch_xla.device()
    curves = load_curves(args.feeders, args.hours, args.seed)
    span = args.lookback + args.horizon
    sampler = WindowSampler(curves[:, :-span], args, device)
    recent = torch.from_numpy(curves[:, -span:].copy()).to(device)
    model = NBeats(args.lookback, args.horizon).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    xm.mark_step()

    for step in range(args.steps):
        for group in opt.param_groups:
            group["lr"] = args.lr * min(1.0, (step + 1) / 8)
        x, y, _ = normalize(*sampler.draw())
        loss = quantile_weighted(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        if (step + 1) % 10 == 0:
            mae = backtest(model, recent, args)
            print(f"step {step + 1} pinball {loss.item():.4f} backtest MAE {mae.item():.3f}")


if __name__ == "__main__":
    main()
