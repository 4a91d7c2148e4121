"""Radar nowcasting: encode 2 past frames, roll out 6 future frames."""
import argparse
import random
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    past: int = 2
    future: int = 6
    grid: int = 16
    batch: int = 6
    hidden: int = 8
    steps: int = 32
    lr: float = 2e-2
    truth_start: float = 0.8
    truth_end: float = 0.3


class RainCells:
    """Gaussian cells advected by a constant wind."""

    def __init__(self, cfg, generator):
        self.cfg, self.g = cfg, generator
        axis = torch.arange(cfg.grid, dtype=torch.float32)
        self.yy, self.xx = torch.meshgrid(axis, axis, indexing="ij")

    def sample(self):
        cfg = self.cfg
        n, total = cfg.batch, cfg.past + cfg.future
        start = torch.rand(n, 3, 2, generator=self.g) * cfg.grid
        wind = torch.randn(n, 1, 2, generator=self.g)
        strength = torch.rand(n, 3, generator=self.g) + 0.3
        frames = []
        for k in range(total):
            centre = (start + k * wind) % cfg.grid
            dy = self.yy - centre[..., 0, None, None]
            dx = self.xx - centre[..., 1, None, None]
            blob = strength[..., None, None] * torch.exp(-(dy**2 + dx**2) / 8.0)
            frames.append(blob.sum(1, keepdim=True))
        frames = torch.stack(frames, 1)
        return frames[:, : cfg.past], frames[:, cfg.past :]


class ConvCell(nn.Module):
    def __init__(self, cin, hidden):
        super().__init__()
        self.gate = nn.Conv2d(cin + hidden, 2 * hidden, 3, padding=1)

    def forward(self, x, h):
        z, new = self.gate(torch.cat([x, h], 1)).chunk(2, 1)
        return torch.lerp(h, new.tanh(), z.sigmoid())


class Nowcaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.cell = ConvCell(1, cfg.hidden)
        self.head = nn.Conv2d(cfg.hidden, 1, 1)

    def forward(self, past, future=None, truth_prob=0.0):
        h = past.new_zeros(past.shape[0], self.cfg.hidden, self.cfg.grid, self.cfg.grid)
        for k in range(self.cfg.past):
            h = self.cell(past[:, k], h)
        frame, out = F.softplus(self.head(h)), []
        for k in range(self.cfg.future):
            out.append(frame)
            if future is not None and random.random() < truth_prob:
                frame = future[:, k]
            h = self.cell(frame, h)
            frame = F.softplus(self.head(h))
        return torch.stack(out, 1)


def rain_weighted_mae(pred, target):
    weight = 1.0 + 4.0 * target.clamp(0, 1)
    return (weight * (pred - target).abs()).mean()


def main(cfg):
    random.seed(5)
    torch.manual_seed(5)
    device = xm.xla_device()
    data = RainCells(cfg, torch.Generator().manual_seed(17))
    net = Nowcaster(cfg).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=cfg.lr)

    for step in range(cfg.steps):
        past, future = (t.to(device) for t in data.sample())
        frac = step / (cfg.steps - 1)
        truth_prob = cfg.truth_start + frac * (cfg.truth_end - cfg.truth_start)
        pred = net(past, future, truth_prob)
        loss = rain_weighted_mae(pred, future)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 10 == 0:
            print(f"{step:3d} truth_prob={truth_prob:.2f} mae={loss.item():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=Config.steps)
    main(Config(steps=parser.parse_args().steps))
