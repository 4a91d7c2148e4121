"""Mixer for multivariate sensor forecasting, with a report on units that never fire."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 88
N_SERIES, CONTEXT, HORIZON = 6, 32, 8
BATCH, STEPS, REPORT_EVERY = 32, 40, 8


def sensor_data(n, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(n, dtype=torch.float32).unsqueeze(1)
    period = 12 + 20 * torch.rand(N_SERIES, generator=g)
    phase = 2 * math.pi * torch.rand(N_SERIES, generator=g)
    x = torch.sin(2 * math.pi * t / period + phase) + 0.15 * torch.randn(n, N_SERIES, generator=g)
    return (x - x.mean(0)) / x.std(0)


class WindowSampler:
    def __init__(self, series, seed):
        self.series = series
        self.g = torch.Generator().manual_seed(seed)

    def draw(self, n):
        last = self.series.size(0) - CONTEXT - HORIZON
        start = torch.randint(0, last, (n, 1), generator=self.g)
        window = self.series[start + torch.arange(CONTEXT + HORIZON)]
        return window[:, :CONTEXT], window[:, CONTEXT:]


class MixerBlock(nn.Module):
    def __init__(self, hidden, dropout=0.1):
        super().__init__()
        self.norm_t = nn.LayerNorm(N_SERIES)
        self.time = nn.Linear(CONTEXT, CONTEXT)
        self.act_t = nn.ReLU()
        self.norm_c = nn.LayerNorm(N_SERIES)
        self.up = nn.Linear(N_SERIES, hidden)
        self.act_c = nn.ReLU()
        self.down = nn.Linear(hidden, N_SERIES)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        h = self.act_t(self.time(self.norm_t(x).transpose(1, 2))).transpose(1, 2)
        x = x + self.drop(h)
        return x + self.drop(self.down(self.act_c(self.up(self.norm_c(x)))))


class Mixer(nn.Module):
    def __init__(self, depth=2, hidden=24):
        super().__init__()
        self.blocks = nn.ModuleList([MixerBlock(hidden) for _ in range(depth)])
        self.head = nn.Linear(CONTEXT, HORIZON)

    def forward(self, x):
        level = x[:, -1:, :]
        x = x - level
        for block in self.blocks:
            x = block(x)
        return self.head(x.transpose(1, 2)).transpose(1, 2) + level


class FiringRate:
    """Share of positive outputs per ReLU unit."""

    def __init__(self):
        self.on = {}
        self.seen = {}

    def attach(self, model):
        for name, module in model.named_modules():
            if isinstance(module, nn.ReLU):
                module.register_forward_hook(self._hook(name))
        return self

    def _hook(self, name):
        def fn(module, args, out):
            fired = (out.detach() > 0).float().flatten(0, -2)
            self.on[name] = self.on.get(name, 0.0) + fired.sum(0)
            self.seen[name] = self.seen.get(name, 0) + fired.size(0)
        return fn

    def silent(self, floor=0.01):
        return {k: (v / self.seen[k] < floor).sum() for k, v in self.on.items()}


@torch.no_grad()
def report(model, sampler, device):
    model.eval()
    rates = FiringRate().attach(model)
    error = torch.zeros((), device=device)
    for _ in range(2):
        x, y = sampler.draw(BATCH)
        error += F.l1_loss(model(x.to(device)), y.to(device))
        xm.mark_step()
    silent = rates.silent()
    xm.mark_step()
    model.train()
    return error.item() / 2, {k: int(v.item()) for k, v in silent.items()}


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    series = sensor_data(1200, SEED)
    train = WindowSampler(series[:1000], SEED)
    valid = WindowSampler(series[1000:], SEED + 1)

    model = Mixer().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(1, STEPS + 1):
        x, y = train.draw(BATCH)
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(x), y, beta=1.5)
        loss.backward()
        optimizer.step()
        xm.mark_step()
        if step % REPORT_EVERY == 0:
            mae, silent = report(model, valid, device)
            dead = sum(silent.values())
            print(f"step {step} loss {loss.item():.4f} mae {mae:.4f} silent units {dead}", flush=True)


if __name__ == "__main__":
    main()
