import math
import random

import torch
import torch.nn as nn
import torch_xla


def series(batch, length, rng):
    rows = []
    for _ in range(batch):
        f, p, a = rng.uniform(0.05, 0.2), rng.uniform(0, 6.28), rng.uniform(0.5, 1.5)
        rows.append([a * math.sin(f * t * 6.28 + p) + rng.gauss(0, 0.05) for t in range(length)])
    return torch.tensor(rows).unsqueeze(1)


class CausalConv(nn.Module):
    def __init__(self, cin, cout, k, dilation):
        super().__init__()
        self.pad = (k - 1) * dilation
        self.conv = nn.Conv1d(cin, cout, k, dilation=dilation)

    def forward(self, x):
        return self.conv(nn.functional.pad(x, (self.pad, 0)))


class GatedBlock(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.filter = CausalConv(ch, ch, 2, dilation)
        self.gate = CausalConv(ch, ch, 2, dilation)
        self.mix = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        y = torch.tanh(self.filter(x)) * torch.sigmoid(self.gate(x))
        y = self.mix(y)
        return x + y, y


class Forecaster(nn.Module):
    def __init__(self, ch=8, dilations=(1, 2, 4)):
        super().__init__()
        self.inp = nn.Conv1d(1, ch, 1)
        self.blocks = nn.ModuleList([GatedBlock(ch, d) for d in dilations])
        self.out = nn.Conv1d(ch, 2, 1)

    def forward(self, x):
        h = self.inp(x)
        skips = 0
        for block in self.blocks:
            h, s = block(h)
            skips = skips + s
        mean, log_scale = self.out(torch.relu(skips)).chunk(2, dim=1)
        return mean, log_scale


def gaussian_nll(mean, log_scale, target):
    inv = torch.exp(-log_scale)
    return (0.5 * ((target - mean) * inv) ** 2 + log_scale).mean()


def main():
    torch.manual_seed(123)
    rng = random.Random(123)
    dev = torch_xla.device()
    model = Forecaster().to(dev)
    opt = torch.optim.RAdam(model.parameters(), lr=4e-3)
    torch_xla.sync()
    for step in range(9):
        seq = series(4, 25, rng).to(dev)
        x, y = seq[:, :, :-1], seq[:, :, 1:]
        opt.zero_grad()
        mean, log_scale = model(x)
        loss = gaussian_nll(mean, log_scale, y)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print("step", step, "nll", loss.item())


if __name__ == "__main__":
    main()
