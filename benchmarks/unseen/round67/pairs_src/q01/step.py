"""Phase picking (noise / P / S) on continuous three-component seismograms."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

STATIONS = 4
RECORD = 1024
WINDOW = 128
HOP = 96


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, 7, stride=stride, padding=3, bias=False)
        self.norm = nn.BatchNorm1d(cout)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class Picker(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = Block(3, width)
        self.down1 = Block(width, 2 * width, stride=4)
        self.down2 = Block(2 * width, 4 * width, stride=4)
        self.up2 = nn.ConvTranspose1d(4 * width, 2 * width, 4, stride=4)
        self.merge2 = Block(4 * width, 2 * width)
        self.up1 = nn.ConvTranspose1d(2 * width, width, 4, stride=4)
        self.merge1 = Block(2 * width, width)
        self.head = nn.Conv1d(width, 3, 1)

    def forward(self, x):
        s0 = self.stem(x)
        s1 = self.down1(s0)
        y = self.up2(self.down2(s1))
        y = self.merge2(torch.cat([y, s1], dim=1))
        y = self.up1(y)
        y = self.merge1(torch.cat([y, s0], dim=1))
        return self.head(y)


def gaussian_targets(arrivals, length, sigma=12.0):
    t = torch.arange(length, dtype=torch.float32)
    ps = torch.exp(-0.5 * ((t - arrivals[..., None]) / sigma) ** 2)
    noise = (1.0 - ps.sum(1, keepdim=True)).clamp(min=0.0)
    y = torch.cat([noise, ps], dim=1)
    return y / y.sum(1, keepdim=True)


class Archive:
    """Keeps the day's records on the device and serves consecutive windows."""

    def __init__(self, device):
        g = torch.Generator().manual_seed(7)
        arrivals = torch.randint(100, RECORD - 200, (STATIONS, 1), generator=g).float()
        arrivals = torch.cat([arrivals, arrivals + 90.0], dim=1)
        wave = torch.randn(STATIONS, 3, RECORD, generator=g)
        self.wave = wave.to(device)
        self.target = gaussian_targets(arrivals, RECORD).to(device)

    def windows(self):
        for start in range(0, RECORD - WINDOW + 1, HOP):
            stop = start + WINDOW
            yield self.wave[:, :, start:stop], self.target[:, :, start:stop]


def normalize(x):
    x = x - x.mean(-1, keepdim=True)
    return x / (x.std(-1, keepdim=True) + 1e-6)


def soft_ce(logits, target, weight):
    logp = F.log_softmax(logits, dim=1)
    return -(target * logp * weight[None, :, None]).sum(1).mean()


def main():
    torch.manual_seed(0)
    device = xm.xla_device()
    model = Picker().to(device).train()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    archive = Archive(device)
    weight = torch.tensor([0.2, 1.0, 1.2], device=device)
    torch_xla.sync()

    for i, (x, y) in enumerate(archive.windows()):
        if i == 5:
            break
        opt.zero_grad()
        loss = soft_ce(model(normalize(x)), y, weight)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, met.counter_value("UncachedCompile"), math.isfinite(loss.item()))


if __name__ == "__main__":
    main()
