"""Walk-forward training of an electricity load forecaster.

Windows move forward through a two-year hourly record.  The model sees the last
CONTEXT hours of several feeders together with calendar features and predicts
the next HORIZON hours; the number of hours that count in the loss is raised
while training proceeds.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

CONTEXT = 48
HORIZON = 24
FEEDERS = 12
STEPS = 24
STRIDE = 24


def make_record(hours, feeders, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)[:, None]
    base = rng.uniform(0.8, 1.2, size=(1, feeders))
    daily = np.sin(2 * np.pi * t / 24 + rng.uniform(0, 1, size=(1, feeders)))
    weekly = np.cos(2 * np.pi * t / 168 + rng.uniform(0, 1, size=(1, feeders)))
    noise = 0.05 * rng.normal(size=(hours, feeders))
    return (base + 0.4 * daily + 0.2 * weekly + noise).astype(np.float32)


class Calendar(nn.Module):
    """Sine and cosine of hour-of-day, hour-of-week and hour-of-year."""

    PERIODS = (24.0, 168.0, 8760.0)

    def forward(self, first_hour, length, device):
        hours = torch.arange(first_hour, first_hour + length,
                             dtype=torch.float32, device=device)
        feats = []
        for period in self.PERIODS:
            angle = hours * (2 * math.pi / period)
            feats += [angle.sin(), angle.cos()]
        return torch.stack(feats, dim=-1)


class Forecaster(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        n_cal = 2 * len(Calendar.PERIODS)
        self.calendar = Calendar()
        self.encode = nn.Sequential(nn.Linear(CONTEXT, hidden), nn.SiLU())
        self.cal_proj = nn.Linear(n_cal, hidden)
        self.mix = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden),
                                 nn.SiLU(), nn.Linear(hidden, 2))

    def forward(self, past, first_hour):
        level = past.mean(dim=1, keepdim=True)
        state = self.encode(past - level)
        cal = self.calendar(first_hour + CONTEXT, HORIZON, past.device)
        joint = state[:, None, :] + self.cal_proj(cal)[None]
        mean, log_scale = self.mix(joint).unbind(dim=-1)
        return mean + level, log_scale.clamp(-4.0, 2.0)


def laplace_nll(mean, log_scale, target):
    return (target - mean).abs() * torch.exp(-log_scale) + log_scale


def active_hours(step):
    return min(HORIZON, 4 + step // 2)


def lr_at(step, base=2e-3, warmup=6):
    if step < warmup:
        return base * (step + 1) / warmup
    frac = (step - warmup) / max(1, STEPS - warmup)
    return base * (0.1 + 0.45 * (1 + math.cos(math.pi * frac)))


def main():
    torch.manual_seed(29)
    device = xm.xla_device()
    record = make_record(CONTEXT + HORIZON + STRIDE * STEPS, FEEDERS, seed=29)

    model = Forecaster().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    running = torch.zeros((), device=device)
    torch_xla.sync()

    model.train()
    for step in range(STEPS):
        first = step * STRIDE
        window = record[first:first + CONTEXT + HORIZON].T.copy()
        window = torch.from_numpy(window).to(device)
        past, future = window[:, :CONTEXT], window[:, CONTEXT:]

        for group in optimizer.param_groups:
            group["lr"] = lr_at(step)

        mean, log_scale = model(past, first)
        n = active_hours(step)
        nll = laplace_nll(mean[:, :n], log_scale[:, :n], future[:, :n])
        loss = nll.mean()

        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        running = 0.9 * running + 0.1 * loss.detach()
        torch_xla.sync()

        if step % 8 == 7:
            print(f"step {step:3d} hours {n:2d} nll {running.item():.4f}")


if __name__ == "__main__":
    main()
