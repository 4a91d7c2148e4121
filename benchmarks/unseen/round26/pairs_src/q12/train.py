import os
import pandas as pd
import numpy as np
import torch
from torch import nn
import torch_xla.core.xla_model as xm
import torch_xla

HORIZON, CONTEXT, BATCH = 4, 32, 12


def make_frame(n=600, seed=3):
    rs = np.random.RandomState(seed)
    idx = pd.date_range("2021-01-01", periods=n, freq="h")
    t = np.arange(n)
    df = pd.DataFrame(
        {
            "load": 2 + np.sin(2 * np.pi * t / 24) + 0.1 * rs.randn(n),
            "temp": np.cos(2 * np.pi * t / 24 + 0.4) + 0.2 * rs.randn(n),
        },
        index=idx,
    )
    df["dow"] = df.index.dayofweek / 6.0 - 0.5
    df["hour"] = df.index.hour / 23.0 - 0.5
    return df


def windows(df, rs):
    v = df.to_numpy("float32")
    while True:
        s = rs.randint(0, len(v) - CONTEXT - HORIZON, size=BATCH)
        x = np.stack([v[i : i + CONTEXT] for i in s])
        y = np.stack([v[i + CONTEXT : i + CONTEXT + HORIZON, 0] for i in s])
        yield torch.from_numpy(x), torch.from_numpy(y)


class CausalConv(nn.Module):
    def __init__(self, cin, cout, k, dil):
        super().__init__()
        self.pad = (k - 1) * dil
        self.conv = nn.Conv1d(cin, cout, k, dilation=dil)

    def forward(self, x):
        return self.conv(nn.functional.pad(x, (self.pad, 0)))


class Block(nn.Module):
    def __init__(self, c, dil):
        super().__init__()
        self.a = CausalConv(c, 2 * c, 3, dil)
        self.skip = nn.Conv1d(c, c, 1)

    def forward(self, x):
        f, g = self.a(x).chunk(2, dim=1)
        z = torch.tanh(f) * torch.sigmoid(g)
        s = self.skip(z)
        return x + s, s


class TCN(nn.Module):
    def __init__(self, cin=4, c=8, dils=(1, 2, 4)):
        super().__init__()
        self.inp = nn.Conv1d(cin, c, 1)
        self.blocks = nn.ModuleList(Block(c, d) for d in dils)
        self.head = nn.Linear(c, 3 * HORIZON)

    def forward(self, x):
        h = self.inp(x.transpose(1, 2))
        total = 0
        for b in self.blocks:
            h, s = b(h)
            total = total + s
        out = self.head(torch.relu(total)[..., -1])
        return out.view(-1, HORIZON, 3)


def pinball(pred, y, qs):
    e = y.unsqueeze(-1) - pred
    return torch.maximum(qs * e, (qs - 1) * e).mean()


def run(steps=int(os.environ.get("STEPS", 9))):
    torch.manual_seed(0)
    dev = xm.xla_device()
    net = TCN().to(dev)
    qs = torch.tensor([0.1, 0.5, 0.9]).to(dev)
    opt = torch.optim.RAdam(net.parameters(), lr=2e-3, weight_decay=1e-2, decoupled_weight_decay=True)
    it = windows(make_frame(), np.random.RandomState(1))
    torch_xla.sync()
    for step in range(1, steps + 1):
        x, y = next(it)
        loss = pinball(net(x.to(dev)), y.to(dev), qs)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 1.0)
        xm.optimizer_step(opt, barrier=True)
        xm.master_print(step, round(loss.item(), 4))


if __name__ == "__main__":
    run()
