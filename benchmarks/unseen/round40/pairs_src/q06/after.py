"""Diagonal state-space forecaster of hourly river levels; quantile loss, reversible instance norm."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("HLO_OUT", os.path.join(HERE, "b.hlo"))
DUMP_AT = 2
QUANTILES = (0.1, 0.5, 0.9)


class DiagonalSSM(nn.Module):
    def __init__(self, width, state=4):
        super().__init__()
        self.log_a = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(width, 1))
        self.log_dt = nn.Parameter(torch.full((width, 1), -2.0))
        self.b = nn.Parameter(torch.randn(width, state) * 0.5)
        self.c = nn.Parameter(torch.randn(width, state) * 0.5)
        self.d = nn.Parameter(torch.ones(width))

    def forward(self, u):
        dt = torch.exp(self.log_dt)
        decay = torch.exp(-torch.exp(self.log_a) * dt)
        h = torch.zeros(u.shape[0], *self.b.shape, device=u.device)
        ys = []
        for t in range(u.shape[1]):
            ut = u[:, t]
            h = decay * h + (1.0 - decay) * self.b * ut.unsqueeze(-1)
            ys.append((h * self.c).sum(-1) + self.d * ut)
        return torch.stack(ys, dim=1)


class RiverNet(nn.Module):
    def __init__(self, stations=2, width=6, horizon=3):
        super().__init__()
        self.horizon = horizon
        self.stations = stations
        self.inp = nn.Linear(stations, width)
        self.ssm = DiagonalSSM(width)
        self.gate = nn.Linear(width, width)
        self.out = nn.Linear(width, stations * horizon * len(QUANTILES))

    def forward(self, x):
        mean = x.mean(dim=1, keepdim=True)
        std = x.std(dim=1, keepdim=True, unbiased=False) + 1e-3
        h = self.inp((x - mean) / std)
        h = self.ssm(h) * torch.sigmoid(self.gate(h))
        y = self.out(h[:, -1]).view(x.shape[0], self.horizon, self.stations, len(QUANTILES))
        return y * std.unsqueeze(-1) + mean.unsqueeze(-1)


def pinball(pred, target):
    q = torch.tensor(QUANTILES, device=pred.device)
    diff = target.unsqueeze(-1) - pred
    return torch.maximum(q * diff, (q - 1.0) * diff).sum(dim=-1).mean()


def train_step(net, opt, x, y):
    opt.zero_grad(set_to_none=True)
    loss = pinball(net(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    return loss, norm


def main(steps=3):
    dev = torch_xla.device()
    torch.manual_seed(17)
    net = RiverNet()
    data = [torch.randn(4, 8, 2).cumsum(1) + 3.0 for _ in range(steps)]
    net = net.to(dev)
    params = list(net.parameters())
    opt = torch.optim.AdamW(params, lr=1e-3, weight_decay=0.02)
    for i, levels in enumerate(data):
        x, y = levels[:, :5].to(dev), levels[:, 5:].to(dev)
        loss, norm = train_step(net, opt, x, y)
        if i == DUMP_AT:
            live = params + [opt.state[p][k] for p in params for k in ("exp_avg", "exp_avg_sq")] + [loss, norm]
            with open(OUT, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(i, loss.item(), norm.item(), file=sys.stderr)


if __name__ == "__main__":
    main()
