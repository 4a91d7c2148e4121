"""Rainfall-runoff model: a GRU over daily forcings with static catchment attributes."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

FORCINGS = ["precip", "temp", "radiation", "vapor", "daylength"]
STATIC = ["area", "slope", "forest", "clay", "aridity", "elevation"]


class RunoffGRU(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.static = nn.Linear(len(STATIC), width)
        self.forcing = nn.Linear(len(FORCINGS), width)
        self.cell = nn.GRUCell(2 * width, width)
        self.runoff = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def initial_state(self, context):
        return torch.zeros_like(context)

    def forward(self, forcings, static):
        context = torch.tanh(self.static(static))
        state = self.initial_state(context)
        flow = []
        for day in range(forcings.size(1)):
            x = torch.relu(self.forcing(forcings[:, day]))
            state = self.cell(torch.cat([x, context], dim=-1), state)
            flow.append(self.runoff(state))
        return F.softplus(torch.cat(flow, dim=-1))


class Basins:
    """A linear reservoir per basin with random constants."""

    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        self.gen = g
        self.static = torch.randn(count, len(STATIC), generator=g)
        self.rate = torch.sigmoid(self.static[:, 1])
        self.std = torch.zeros(count)
        days = 120
        forcing = torch.randn(count, days, len(FORCINGS), generator=g)
        forcing[..., 0] = torch.relu(forcing[..., 0]) * 2
        flow, store = [], torch.ones(count)
        for d in range(days):
            store = store + forcing[:, d, 0]
            out = self.rate * 0.4 * store
            store = store - out
            flow.append(out)
        self.forcing, self.flow = forcing, torch.stack(flow, dim=1)
        self.std = self.flow.std(dim=1)

    def windows(self, batch, length, warmup):
        basin = torch.randint(0, len(self.static), (batch,), generator=self.gen)
        start = torch.randint(0, self.flow.size(1) - length, (batch,), generator=self.gen)
        days = start.unsqueeze(1) + torch.arange(length)
        rows = basin.unsqueeze(1)
        return (self.forcing[rows, days], self.static[basin],
                self.flow[rows, days][:, warmup:], self.std[basin])


def nse_loss(pred, flow, std, eps=0.1):
    """Squared error relative to the variability of the basin."""
    weight = 1.0 / (std + eps).square()
    return (weight.unsqueeze(1) * (pred - flow).square()).mean()


def learning_rate(step, total, peak):
    return peak * 0.5 * (1 + math.cos(math.pi * step / (total + 1)))


def main(steps=16, batch=12, length=8, warmup=3):
    torch.manual_seed(14)
    device = xm.xla_device()
    basins = Basins(30, seed=15)
    model = RunoffGRU().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps):
        for group in opt.param_groups:
            group["lr"] = learning_rate(step, steps, 5e-3)
        forcing, static, flow, std = (t.to(device) for t in basins.windows(batch, length, warmup))
        opt.zero_grad()
        pred = model(forcing, static)[:, warmup:]
        loss = nse_loss(pred, flow, std)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        opt.step()
        torch_xla.sync()
        if (step + 1) % 8 == 0:
            print(f"{step + 1} nse-loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
