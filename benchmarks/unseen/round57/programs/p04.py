"""Multi-horizon load forecasting: dilated convolutions, quantile outputs, sMAPE / coverage reports."""
import dataclasses
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset


@dataclasses.dataclass
class Config:
    context: int = 48
    horizon: int = 12
    series: int = 20
    length: int = 400
    batch: int = 32
    channels: int = 16
    levels: tuple = (0.1, 0.5, 0.9)
    steps: int = 60
    report_every: int = 3
    lr: float = 2e-3


class Windows(Dataset):
    def __init__(self, cfg, seed):
        rng = np.random.default_rng(seed)
        t = np.arange(cfg.length)
        rows = []
        for _ in range(cfg.series):
            daily = rng.uniform(0.5, 2) * np.sin(2 * np.pi * (t / 24 + rng.uniform()))
            weekly = rng.uniform(0.2, 1) * np.sin(2 * np.pi * (t / 168 + rng.uniform()))
            noise = np.cumsum(rng.normal(0, 0.05, cfg.length)) + rng.normal(0, 0.2, cfg.length)
            rows.append(5 + daily + weekly + noise)
        self.x = torch.tensor(np.stack(rows), dtype=torch.float32)
        self.hour = torch.tensor(t % 24)
        self.cfg = cfg
        self.per_series = cfg.length - cfg.context - cfg.horizon

    def __len__(self):
        return self.cfg.series * self.per_series

    def __getitem__(self, i):
        s, o = divmod(i, self.per_series)
        c, h = self.cfg.context, self.cfg.horizon
        return (self.x[s, o:o + c], self.hour[o:o + c + h], torch.tensor(s), self.x[s, o + c:o + c + h])


class Block(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(ch, 2 * ch, 3, dilation=dilation)
        self.out = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        a, b = self.conv(F.pad(x, (self.pad, 0))).chunk(2, dim=1)
        return x + self.out(torch.tanh(a) * torch.sigmoid(b))


class QuantileTCN(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        ch = cfg.channels
        self.inp = nn.Conv1d(1, ch, 1)
        self.hour = nn.Embedding(24, ch)
        self.series = nn.Embedding(cfg.series, ch)
        self.blocks = nn.ModuleList(Block(ch, 2 ** i) for i in range(4))
        self.head = nn.Sequential(nn.Linear(2 * ch, 2 * ch), nn.ReLU(),
                                  nn.Linear(2 * ch, len(cfg.levels)))

    def forward(self, past, hours, sid):
        scale = past.abs().mean(1, keepdim=True).clamp(min=1e-3)
        h = self.inp((past / scale).unsqueeze(1))
        h = h + self.hour(hours[:, :self.cfg.context]).transpose(1, 2)
        h = h + self.series(sid).unsqueeze(-1)
        for b in self.blocks:
            h = b(h)
        last = h[:, :, -1].unsqueeze(1).expand(-1, self.cfg.horizon, -1)
        future = self.hour(hours[:, self.cfg.context:])
        return self.head(torch.cat([last, future], -1)) * scale.unsqueeze(-1)


def pinball(pred, y, levels):
    d = y.unsqueeze(-1) - pred
    return torch.maximum(levels * d, (levels - 1) * d).mean()


class ForecastMeter:
    """Collects forecasts over an epoch; the ratios have to be taken over the whole set, not per batch."""

    def __init__(self):
        self.pred, self.true = [], []

    def update(self, pred, true):
        self.pred.append(pred.detach())
        self.true.append(true)

    def compute(self):
        p, y = torch.cat(self.pred), torch.cat(self.true)
        med = p[..., 1]
        smape = (2 * (med - y).abs() / (med.abs() + y.abs() + 1e-6)).mean()
        wape = (med - y).abs().sum() / y.abs().sum()
        cover = ((y >= p[..., 0]) & (y <= p[..., 2])).float().mean()
        return {"smape": smape.item(), "wape": wape.item(), "coverage": cover.item()}

    def reset(self):
        self.pred.clear()
        self.true.clear()


def main():
    cfg = Config()
    torch.manual_seed(5)
    device = torch_xla.device()
    data = Windows(cfg, seed=5)
    loader = DataLoader(data, batch_size=cfg.batch, shuffle=True, drop_last=True,
                        generator=torch.Generator().manual_seed(6))
    feed = pl.MpDeviceLoader(loader, device)

    model = QuantileTCN(cfg).to(device)
    levels = torch.tensor(cfg.levels, device=device)
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1},
                             {"params": rest, "weight_decay": 0.0}], lr=cfg.lr)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / 8) * 0.5 * (1 + math.cos(math.pi * s / cfg.steps)))
    meter = ForecastMeter()

    for step, (past, hours, sid, y) in enumerate(feed, 1):
        opt.zero_grad()
        pred = model(past, hours, sid)
        loss = pinball(pred, y, levels)
        loss.backward()
        opt.step()
        sched.step()
        meter.update(pred, y)
        torch_xla.sync()
        if step % cfg.report_every == 0:
            m = meter.compute()
            print(f"step {step:3d} pinball {loss.item():.4f} " +
                  " ".join(f"{k} {v:.3f}" for k, v in m.items()))
        if step == cfg.steps:
            break
    meter.reset()


if __name__ == "__main__":
    main()
