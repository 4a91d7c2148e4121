"""Global forecaster for an hourly load panel (synthetic), with calendar embedding from the absolute hour."""
import math

import numpy as np
import pandas as pd
import torch
import torch_xla
from torch import nn

HISTORY, HORIZON = 48, 12
N_SERIES, N_HOURS = 20, 24 * 60
STEPS = 20


def load_panel(seed=0):
    rng = np.random.default_rng(seed)
    index = pd.date_range("2023-01-01", periods=N_HOURS, freq="h")
    hour, dow = index.hour.values, index.dayofweek.values
    out = {}
    for k in range(N_SERIES):
        base = rng.uniform(20, 80)
        daily = rng.uniform(2, 10) * np.sin(2 * math.pi * (hour + rng.uniform(0, 6)) / 24)
        weekly = rng.uniform(1, 5) * (dow >= 5)
        ar = pd.Series(rng.normal(0, 1, N_HOURS)).ewm(span=12).mean().values
        out[f"meter_{k:02d}"] = base + daily - weekly + 2 * ar
    return pd.DataFrame(out, index=index)


class HourEncoding(nn.Module):
    """Sines and cosines at daily, weekly and yearly frequency plus a learned mix."""

    PERIODS = (24.0, 12.0, 24.0 * 7, 24.0 * 365)

    def __init__(self, d_model):
        super().__init__()
        self.register_buffer("omega", 2 * math.pi / torch.tensor(self.PERIODS))
        self.mix = nn.Linear(2 * len(self.PERIODS), d_model)

    def forward(self, first_hour, length):
        t = torch.arange(first_hour, first_hour + length, device=self.omega.device)
        angle = t[:, None].float() * self.omega
        return self.mix(torch.cat([angle.sin(), angle.cos()], dim=-1))


class Forecaster(nn.Module):

    def __init__(self, d_model=32, heads=2):
        super().__init__()
        self.hours = HourEncoding(d_model)
        self.value = nn.Linear(1, d_model)
        self.query = nn.Parameter(torch.randn(HORIZON, d_model) * 0.02)
        self.attn = nn.MultiheadAttention(d_model, heads, batch_first=True)
        self.ff = nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, 64), nn.GELU(), nn.Linear(64, 3))

    def forward(self, y, first_hour):
        n = y.shape[0]
        pos = self.hours(first_hour, HISTORY + HORIZON)
        memory = self.value(y[..., None]) + pos[:HISTORY]
        q = (self.query + pos[HISTORY:]).expand(n, -1, -1)
        h, _ = self.attn(q, memory, memory, need_weights=False)
        return self.ff(h + q)


def pinball(pred, target, levels):
    err = target[..., None] - pred
    return torch.maximum(levels * err, (levels - 1) * err).mean()


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    device = torch_xla.device()
    panel = load_panel()
    values = ((panel - panel.mean()) / panel.std()).to_numpy(np.float32).T
    levels = torch.tensor([0.1, 0.5, 0.9]).to(device)

    model = Forecaster().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS, eta_min=1e-5)
    torch_xla.sync()

    ema = None
    for step in range(STEPS):
        start = int(rng.integers(0, N_HOURS - HISTORY - HORIZON))
        window = torch.from_numpy(values[:, start:start + HISTORY + HORIZON].copy()).to(device)
        past, future = window[:, :HISTORY], window[:, HISTORY:]
        with torch_xla.step():
            opt.zero_grad()
            loss = pinball(model(past, start), future, levels)
            loss.backward()
            opt.step()
        sched.step()
        value = loss.item()
        ema = value if ema is None else 0.9 * ema + 0.1 * value
        if step % 10 == 9:
            print(f"step {step + 1} from {panel.index[start]:%Y-%m-%d %H:%M} pinball {ema:.4f}")


if __name__ == "__main__":
    main()
