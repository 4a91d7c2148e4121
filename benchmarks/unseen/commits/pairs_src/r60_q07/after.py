"""TSMixer-style model for hourly load forecasting."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = dict(context=48, horizon=12, channels=5, hidden=16, blocks=1, dropout=0.1,
           lr=1e-3, weight_decay=0.01, batch=8, steps=12, max_norm=1.0)


class InstanceNorm(nn.Module):
    """Reversible instance normalization over time, relative to the last observation."""

    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        last = x[:, -1:].detach()
        std = (x.var(1, keepdim=True, unbiased=False) + self.eps).sqrt()
        return (x - last) / std * self.gain + self.bias, (last, std)

    def inverse(self, y, stats):
        last, std = stats
        return (y - self.bias) / (self.gain + self.eps) * std + last


class MixerBlock(nn.Module):
    def __init__(self, length, channels, hidden, dropout):
        super().__init__()
        self.norm_t = nn.LayerNorm(channels)
        self.time = nn.Linear(length, length)
        self.norm_c = nn.LayerNorm(channels)
        self.expand = nn.Linear(channels, hidden)
        self.reduce = nn.Linear(hidden, channels)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        h = self.time(self.norm_t(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.drop(F.relu(h))
        return x + self.reduce(F.relu(self.expand(self.norm_c(x))))


class Forecaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.revin = InstanceNorm(cfg["channels"])
        self.blocks = nn.ModuleList(
            MixerBlock(cfg["context"], cfg["channels"], cfg["hidden"], cfg["dropout"])
            for _ in range(cfg["blocks"]))
        self.head = nn.Linear(cfg["context"], cfg["horizon"])

    def forward(self, x):
        x, stats = self.revin(x)
        for block in self.blocks:
            x = block(x)
        y = self.head(x.transpose(1, 2)).transpose(1, 2)
        return self.revin.inverse(y, stats)


class Windows:
    def __init__(self, cfg, seed=0, length=2000):
        rng = np.random.default_rng(seed)
        t = np.arange(length)[:, None]
        phase = rng.uniform(0, 2 * np.pi, cfg["channels"])
        series = np.sin(2 * np.pi * t / 24 + phase) + 0.4 * np.sin(2 * np.pi * t / 168 + phase)
        self.series = (series + 0.1 * rng.normal(size=series.shape)).astype(np.float32)
        self.cfg, self.rng = cfg, rng

    def batch(self):
        span = self.cfg["context"] + self.cfg["horizon"]
        start = self.rng.integers(0, len(self.series) - span, self.cfg["batch"])
        w = torch.from_numpy(np.stack([self.series[s:s + span] for s in start]))
        return w[:, :self.cfg["context"]], w[:, self.cfg["context"]:]


def clip_(params, max_norm):
    norm = torch.stack([p.grad.square().sum() for p in params]).sum().sqrt()
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for p in params:
        p.grad.mul_(scale)


def train(cfg):
    torch.manual_seed(0)
    device = torch_xla.device()
    data = Windows(cfg)
    model = Forecaster(cfg).to(device).train()
    params = list(model.parameters())
    opt = torch.optim.AdamW(params, lr=cfg["lr"], weight_decay=cfg["weight_decay"])
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    for step in range(cfg["steps"]):
        x, y = data.batch()
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        loss = F.smooth_l1_loss(model(x), y)
        loss.backward()
        clip_(params, cfg["max_norm"])
        opt.step()
        sched.step()
        torch_xla.sync()
        if step % 4 == 3:
            print(step, round(loss.item(), 5))


if __name__ == "__main__":
    train(CFG)
