"""Multi-station temperature nowcasting with gappy observations."""
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    stations: int = 10
    hours: int = 720
    context: int = 24
    horizon: int = 6
    hidden: int = 24
    batch: int = 4
    steps: int = 26
    lr: float = 0.05
    seed: int = 17


def simulate(cfg):
    """Diurnal cycle + synoptic drift + station offsets, with outages."""
    rng = np.random.default_rng(cfg.seed)
    t = np.arange(cfg.hours)
    base = 6 * np.sin(2 * math.pi * t / 24)[None] + 3 * np.sin(2 * math.pi * t / 170)[None]
    temp = base + rng.normal(0, 3, (cfg.stations, 1)) + rng.normal(0, 0.7, (cfg.stations, cfg.hours))
    wind = np.abs(rng.normal(3, 1, (cfg.stations, cfg.hours)))
    ok = np.ones((cfg.stations, cfg.hours), dtype=bool)
    for _ in range(60):
        s, a = rng.integers(cfg.stations), rng.integers(cfg.hours - 12)
        ok[s, a:a + rng.integers(2, 12)] = False
    temp = (temp - temp.mean()) / temp.std()
    wind = (wind - wind.mean()) / wind.std()
    temp[~ok] = 0.0
    return np.stack([temp, wind], -1).astype(np.float32), ok


class Archive:
    """The whole record is small, so it stays on the device."""

    def __init__(self, cfg, device):
        values, ok = simulate(cfg)
        self.values = torch.from_numpy(values).to(device)
        self.ok = torch.from_numpy(ok).to(device)
        self.cfg = cfg
        self.rng = np.random.default_rng(cfg.seed + 1)
        self.split = int(cfg.hours * 0.8)

    def window(self, start):
        mid = start + self.cfg.context
        end = mid + self.cfg.horizon
        past = self.values[:, start:mid]
        seen = self.ok[:, start:mid].float().unsqueeze(-1)
        return torch.cat([past, seen], -1), self.values[:, mid:end, 0], self.ok[:, mid:end]

    def train_batch(self):
        last = self.split - self.cfg.context - self.cfg.horizon
        starts = self.rng.integers(0, last, size=self.cfg.batch)
        parts = [self.window(int(s)) for s in starts]
        return tuple(torch.stack(p) for p in zip(*parts))

    def eval_batch(self):
        parts = [self.window(self.split + 24 * k) for k in range(self.cfg.batch)]
        return tuple(torch.stack(p) for p in zip(*parts))


class Nowcaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Parameter(0.1 * torch.randn(cfg.stations, 4))
        self.temporal = nn.Linear(cfg.context * 3 + 4, cfg.hidden)
        self.mix = nn.Linear(cfg.stations, cfg.stations, bias=False)
        self.head = nn.Linear(cfg.hidden, cfg.horizon)
        nn.init.eye_(self.mix.weight)

    def forward(self, past):
        b, s = past.shape[:2]
        flat = torch.cat([past.reshape(b, s, -1), self.embed.expand(b, -1, -1)], -1)
        h = torch.relu(self.temporal(flat))
        h = h + torch.relu(self.mix(h.transpose(1, 2)).transpose(1, 2))
        persistence = past[:, :, -1:, 0]
        return persistence + self.head(h)


def huber(err, delta=1.0):
    a = err.abs()
    return torch.where(a < delta, 0.5 * err * err, delta * (a - 0.5 * delta))


def masked_huber(pred, target, ok):
    err = pred[ok] - target[ok]
    return huber(err).mean()


@torch.no_grad()
def evaluate(model, batch):
    past, target, ok = batch
    w = ok.float()
    return ((model(past) - target).abs() * w).sum() / w.sum()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    archive = Archive(cfg, device)
    model = Nowcaster(cfg).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr)
    held_out = archive.eval_batch()
    xm.mark_step()

    total = torch.zeros((), device=device)
    for step in range(1, cfg.steps + 1):
        past, target, ok = archive.train_batch()
        loss = masked_huber(model(past), target, ok)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt)
        total = total + loss.detach()
        xm.mark_step()
        if step % 13 == 0:
            mae = evaluate(model, held_out)
            print(f"step {step} loss {total.item() / 13:.4f} mae {mae.item():.4f}")
            total = torch.zeros((), device=device)
    xm.mark_step()


if __name__ == "__main__":
    main()
