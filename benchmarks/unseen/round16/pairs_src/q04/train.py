"""Photovoltaic output forecasting with a small GRU; horizon grows during training."""
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

FEATURES = 5
CONTEXT = 5


class Plant:
    """Synthetic irradiance, temperature and output of one site."""

    def __init__(self, hours=2000, seed=9):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(hours).float()
        sun = torch.clamp(torch.sin(2 * math.pi * t / 24), min=0)
        cloud = torch.rand(hours, generator=g)
        temp = 12 + 8 * torch.sin(2 * math.pi * t / 24 - 1) + torch.randn(hours, generator=g)
        out = sun * (1 - 0.6 * cloud) * (1 - 0.004 * (temp - 20))
        clock = torch.stack([torch.sin(2 * math.pi * t / 24), torch.cos(2 * math.pi * t / 24)], 1)
        self.table = torch.cat([out[:, None], cloud[:, None], temp[:, None] / 20, clock], 1)
        self.g = g

    def windows(self, n, length):
        starts = torch.randint(0, len(self.table) - length, (n,), generator=self.g)
        return torch.stack([self.table[s:s + length] for s in starts])


class Forecaster(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.enc = nn.GRUCell(FEATURES, hidden)
        self.dec = nn.GRUCell(FEATURES, hidden)
        self.read = nn.Linear(hidden, 1)

    def forward(self, past, future_exog):
        h = past.new_zeros(past.shape[0], self.enc.hidden_size)
        for x in past.unbind(1):
            h = self.enc(x, h)
        y, preds = past[:, -1, :1], []
        for exog in future_exog.unbind(1):
            h = self.dec(torch.cat([y, exog], -1), h)
            y = self.read(h)
            preds.append(y)
        return torch.cat(preds, 1)


class Curriculum:
    def __init__(self, stages):
        self.stages = stages

    def horizon(self, it):
        h = self.stages[0][1]
        for start, value in self.stages:
            if it >= start:
                h = value
        return h


def pinball(pred, target, q=0.5):
    err = target - pred
    return torch.maximum(q * err, (q - 1) * err).mean()


def main(iters=36, batch=12):
    torch.manual_seed(4)
    device = torch_xla.device()
    plant, model = Plant(), Forecaster().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    plan = Curriculum([(0, 2), (12, 3), (24, 5)])
    for it in range(iters):
        horizon = plan.horizon(it)
        w = plant.windows(batch, CONTEXT + horizon).to(device)
        pred = model(w[:, :CONTEXT], w[:, CONTEXT:, 1:])
        loss = pinball(pred, w[:, CONTEXT:, 0])
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        if it % 12 == 11:
            print(f"{it:3d} h={horizon} loss={loss.item():.4f}")


if __name__ == "__main__":
    main()
