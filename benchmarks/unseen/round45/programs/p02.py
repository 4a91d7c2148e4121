"""Autoregressive forecast model on a coarse lat/lon grid, trained with a lengthening rollout."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 3
LAT, LON, VARS = 12, 24, 4
BATCH = 4
STEPS = 66
ROLLOUT = [(0, 1), (8, 2), (18, 3)]     # (from step, lead times)
EVAL_LEAD = 4
EVAL_EVERY = 12


class PeriodicConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3)

    def forward(self, x):
        x = torch.cat([x[..., -1:], x, x[..., :1]], dim=-1)     # longitude wraps
        x = F.pad(x, (0, 0, 1, 1))
        return self.conv(x)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(4, width)
        self.a = PeriodicConv(width, width)
        self.b = PeriodicConv(width, width)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(self.norm(x))))


class Forecaster(nn.Module):
    def __init__(self, width=16, depth=1):
        super().__init__()
        self.stem = PeriodicConv(VARS + 2, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = PeriodicConv(width, VARS)
        nn.init.zeros_(self.head.conv.weight)
        lat = torch.linspace(-math.pi / 2, math.pi / 2, LAT)
        forcing = torch.stack([lat.sin(), lat.cos()])[:, :, None].expand(2, LAT, LON)
        self.register_buffer("forcing", forcing.clone())

    def forward(self, state):
        f = self.forcing.expand(state.size(0), -1, -1, -1)
        h = self.stem(torch.cat([state, f], 1))
        for blk in self.blocks:
            h = blk(h)
        return state + self.head(h)


class Archive:
    """Synthetic reanalysis: travelling waves plus noise, made on the host."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.lon = torch.linspace(0, 2 * math.pi, LON + 1)[:-1]
        self.lat = torch.linspace(-1, 1, LAT)

    def window(self, lead):
        phase = torch.rand(BATCH, VARS, 1, 1, generator=self.g) * 2 * math.pi
        speed = 0.2 + 0.1 * torch.rand(BATCH, VARS, 1, 1, generator=self.g)
        k = torch.arange(1, VARS + 1).view(1, VARS, 1, 1)
        frames = []
        for t in range(lead + 1):
            wave = torch.sin(k * self.lon + phase + speed * t) * (1 - self.lat.view(LAT, 1) ** 2)
            frames.append(wave + 0.02 * torch.randn(wave.shape, generator=self.g))
        return torch.stack(frames, 1)


def lead_for(step):
    lead = 1
    for start, value in ROLLOUT:
        if step >= start:
            lead = value
    return lead


def rollout_loss(model, frames, area):
    lead = frames.size(1) - 1
    state, total = frames[:, 0], 0.0
    for t in range(1, lead + 1):
        state = model(state)
        total = total + (area * (state - frames[:, t]) ** 2).mean()
    return total / lead


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    model = Forecaster().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min((s + 1) / 10.5, 0.5 * (1.02 + math.cos(math.pi * s / STEPS))))

    lat = torch.linspace(-math.pi / 2, math.pi / 2, LAT + 2)[1:-1]
    area = (lat.cos() / lat.cos().mean()).view(1, 1, LAT, 1).to(device)
    train, valid = Archive(SEED), Archive(SEED + 100)
    torch_xla.sync()

    running = torch.zeros((), device=device)
    for step in range(STEPS):
        lead = lead_for(step)
        sigma = 0.08 * (0.97 ** step)
        frames = train.window(lead).to(device)
        noisy = frames[:, :1] + sigma * torch.randn_like(frames[:, :1])
        frames = torch.cat([noisy, frames[:, 1:]], 1)

        opt.zero_grad()
        loss = rollout_loss(model, frames, area)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0 + 0.5 * lead)
        opt.step()
        sched.step()
        running = 0.9 * running + 0.1 * loss.detach()
        torch_xla.sync()

        if (step + 1) % EVAL_EVERY == 0:
            model.eval()
            with torch.no_grad():
                score = rollout_loss(model, valid.window(EVAL_LEAD).to(device), area).sqrt()
            torch_xla.sync()
            model.train()
            print(f"step {step + 1:3d} lead {lead} sigma {sigma:.4f} "
                  f"ema {running.item():.4f} rmse@{EVAL_LEAD} {score.item():.4f}")


if __name__ == "__main__":
    main()
