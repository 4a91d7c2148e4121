"""Day-ahead electricity load for a set of substations.

The whole history is small, it is loaded to the device once and the training
windows are cropped from it there.
"""
import math
import random

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

HOURS = 24 * 120
STATIONS = 12
CONTEXT = 96
HORIZON = 24
VAL_HOURS = 24 * 14


def synth_history(seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(HOURS, dtype=torch.float32)
    daily = torch.sin(2 * math.pi * (t / 24.0)[None] + torch.rand(STATIONS, 1, generator=g))
    weekly = torch.sin(2 * math.pi * (t / 168.0)[None] + torch.rand(STATIONS, 1, generator=g))
    base = 2.0 + torch.rand(STATIONS, 1, generator=g) * 3.0
    noise = 0.1 * torch.randn(STATIONS, HOURS, generator=g)
    load = base * (1.0 + 0.4 * daily + 0.2 * weekly) + noise
    temp = 10 + 8 * torch.sin(2 * math.pi * t / (24 * 365)) + torch.randn(HOURS, generator=g)
    calendar = torch.stack([
        torch.sin(2 * math.pi * t / 24), torch.cos(2 * math.pi * t / 24),
        torch.sin(2 * math.pi * t / 168), torch.cos(2 * math.pi * t / 168),
        (temp - temp.mean()) / temp.std(),
    ])
    return load, calendar


class History:
    def __init__(self, load, calendar, device):
        train = load[:, :-VAL_HOURS]
        self.mean = train.mean(dim=1, keepdim=True).to(device)
        self.std = train.std(dim=1, keepdim=True).to(device)
        self.load = (load.to(device) - self.mean) / self.std
        self.calendar = calendar.to(device)
        self.n_train = HOURS - VAL_HOURS

    def window(self, start):
        mid, end = start + CONTEXT, start + CONTEXT + HORIZON
        past = self.load[:, start:mid]
        future = self.load[:, mid:end]
        known = self.calendar[:, mid:end]
        return past, known, future

    def validation(self):
        starts = range(self.n_train, HOURS - CONTEXT - HORIZON, 72)
        parts = [self.window(s) for s in starts]
        return [torch.stack(p) for p in zip(*parts)]


class Residual(nn.Module):
    def __init__(self, din, dhid, dout):
        super().__init__()
        self.fc1 = nn.Linear(din, dhid)
        self.fc2 = nn.Linear(dhid, dout)
        self.skip = nn.Linear(din, dout)
        self.norm = nn.LayerNorm(dout)

    def forward(self, x):
        return self.norm(self.fc2(torch.relu(self.fc1(x))) + self.skip(x))


class TiDE(nn.Module):
    """Time-series dense encoder with covariates of the horizon."""

    def __init__(self, hidden=48, per_hour=8, n_cov=5):
        super().__init__()
        self.station = nn.Embedding(STATIONS, 8)
        self.encoder = Residual(CONTEXT + 8 + n_cov * HORIZON, hidden, hidden)
        self.decoder = Residual(hidden, hidden, per_hour * HORIZON)
        self.temporal = nn.Linear(per_hour + n_cov, 1)
        self.bypass = nn.Linear(CONTEXT, HORIZON)
        self.register_buffer("ids", torch.arange(STATIONS))

    def forward(self, past, known):
        n = past.shape[0]
        cov = known.flatten().expand(n, -1)
        h = self.encoder(torch.cat([past, self.station(self.ids), cov], dim=1))
        per_hour = self.decoder(h).view(n, HORIZON, -1)
        cov = known.t().expand(n, -1, -1)
        out = self.temporal(torch.cat([per_hour, cov], dim=-1)).squeeze(-1)
        return out + self.bypass(past)


def quantile_loss(pred, target, q=0.6):
    diff = target - pred
    return torch.maximum(q * diff, (q - 1) * diff).mean()


@torch.no_grad()
def validate(model, val):
    model.eval()
    past, known, future = val
    errs = [(model(p, k) - f).abs().mean() for p, k, f in zip(past, known, future)]
    model.train()
    return torch.stack(errs).mean().item()


def main():
    torch.manual_seed(4)
    random.seed(4)
    device = xm.xla_device()
    history = History(*synth_history(4), device)
    val = history.validation()
    model = TiDE().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    xm.mark_step()

    for step in range(1, 17):
        start = random.randrange(history.n_train - CONTEXT - HORIZON)
        past, known, future = history.window(start)
        loss = quantile_loss(model(past, known), future)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        if step % 8 == 0:
            print(f"step {step}: train {loss.item():.4f} val mae {validate(model, val):.4f}")


if __name__ == "__main__":
    main()
