"""Neural collaborative pricing: estimate hotel room rates from room/date/location features."""
import math
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch_xla


@dataclass
class OptimCfg:
    lr: float = 3e-3
    betas: tuple = (0.9, 0.98)
    weight_decay: float = 0.05
    no_decay: tuple = ("bias", "norm")


@dataclass
class Cfg:
    hotels: int = 40
    width: int = 16
    batch: int = 24
    steps: int = 14
    optim: OptimCfg = field(default_factory=OptimCfg)


class Season(nn.Module):
    """Learned Fourier series over the day of the year."""

    def __init__(self, k, d):
        super().__init__()
        self.register_buffer("k", torch.arange(1, k + 1).float() * 2 * math.pi / 365)
        self.lin = nn.Linear(2 * k, d)

    def forward(self, day):
        a = day[:, None] * self.k
        return self.lin(torch.cat([a.sin(), a.cos()], 1))


class RateModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg.width
        self.hotel = nn.Embedding(cfg.hotels, d)
        self.season = Season(3, d)
        self.room = nn.Linear(4, d)
        self.norm = nn.LayerNorm(d)
        self.hidden = nn.Linear(d, d)
        self.rate = nn.Linear(d, 1)

    def forward(self, hotel, day, room):
        h = self.norm(self.hotel(hotel) + self.season(day) * torch.sigmoid(self.room(room)))
        return self.rate(nn.functional.mish(self.hidden(h))).squeeze(1)


def groups(model, oc):
    decay, rest = [], []
    for name, p in model.named_parameters():
        (rest if any(s in name for s in oc.no_decay) else decay).append(p)
    return [{"params": decay, "weight_decay": oc.weight_decay}, {"params": rest, "weight_decay": 0.0}]


def make_optimizer(model, oc):
    return torch.optim.Adam(groups(model, oc), lr=oc.lr, betas=oc.betas)


def bookings(cfg, step):
    g = torch.Generator().manual_seed(1000 + step)
    hotel = torch.randint(0, cfg.hotels, (cfg.batch,), generator=g)
    day = torch.randint(0, 365, (cfg.batch,), generator=g).float()
    room = torch.rand(cfg.batch, 4, generator=g)
    price = 0.02 * hotel + torch.sin(day * 2 * math.pi / 365) + room.sum(1)
    return hotel, day, room, price


def main():
    cfg = Cfg()
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = RateModel(cfg).to(dev)
    opt = make_optimizer(model, cfg.optim)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=6e-3, total_steps=cfg.steps + 1, cycle_momentum=False)
    torch_xla.sync()
    for step in range(cfg.steps):
        hotel, day, room, price = (t.to(dev) for t in bookings(cfg, step))
        loss = nn.functional.l1_loss(model(hotel, day, room), price)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
    print("mae", round(loss.item(), 4))


if __name__ == "__main__":
    main()
