"""Orbit-determination residual net: satellite-tracking passes, trained with RAdam.

usage: python step.py OUTDIR      (writes OUTDIR/a.hlo and OUTDIR/b.hlo)
"""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, OBS, FEATS, HID = 5, 8, 7, 10
DUMP = {4: "a.hlo", 7: "b.hlo"}


class FourierTime(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("freq", 0.7 * 2.0 ** torch.arange(n).float())

    def forward(self, t):
        arg = t.unsqueeze(-1) * self.freq
        return torch.cat([arg.sin(), arg.cos()], dim=-1)


class FiLM(nn.Module):
    """Station features scale and shift the pass features."""

    def __init__(self, hid):
        super().__init__()
        self.lin = nn.Linear(hid, hid)
        self.mod = nn.Linear(hid, 2 * hid)

    def forward(self, x, ctx):
        gamma, beta = self.mod(ctx).chunk(2, dim=-1)
        return x + F.silu(self.lin(x) * (1.0 + gamma.unsqueeze(1)) + beta.unsqueeze(1))


class ResidualNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = FourierTime(3)
        self.station = nn.Embedding(6, HID)
        self.inp = nn.Linear(FEATS + 6, HID)
        self.film = nn.ModuleList([FiLM(HID), FiLM(HID)])
        self.range_head = nn.Linear(HID, 1)
        self.angle_head = nn.Linear(HID, 2)

    def forward(self, obs, t, station):
        ctx = self.station(station)
        h = self.inp(torch.cat([obs, self.time(t)], dim=-1))
        for film in self.film:
            h = film(h, ctx)
        return self.range_head(h).squeeze(-1), self.angle_head(h)


def loss_fn(pred, rng_target, ang_target, sigma):
    rng, ang = pred
    range_term = F.huber_loss(rng / sigma, rng_target / sigma, delta=1.3)
    # angles: 1 - cos, no wrap-around
    angle_term = (1.0 - torch.cos(ang - ang_target)).sum(-1).mean()
    return range_term + 0.4 * angle_term


def batch(gen, device):
    obs = torch.randn(BATCH, OBS, FEATS, generator=gen)
    t = torch.rand(BATCH, OBS, generator=gen)
    station = torch.randint(0, 6, (BATCH,), generator=gen)
    rng = torch.randn(BATCH, OBS, generator=gen)
    ang = torch.randn(BATCH, OBS, 2, generator=gen)
    sigma = 0.5 + torch.rand(BATCH, 1, generator=gen)
    return [x.to(device) for x in (obs, t, station, rng, ang, sigma)]


def main(outdir):
    device = torch_xla.device()
    torch.manual_seed(2)
    model = ResidualNet().to(device)
    opt = torch.optim.RAdam(model.parameters(), lr=3e-3, betas=(0.9, 0.997), weight_decay=0.01)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.97)
    gen = torch.Generator().manual_seed(4)
    torch_xla.sync()
    for step in range(9):
        obs, t, station, rng, ang, sigma = batch(gen, device)
        opt.zero_grad()
        loss = loss_fn(model(obs, t, station), rng, ang, sigma)
        loss.backward()
        opt.step()
        sched.step()
        if step in DUMP:
            pend = [loss]
            for p in model.parameters():
                st = opt.state[p]
                pend += [p, p.grad, st["exp_avg"], st["exp_avg_sq"]]
            with open(os.path.join(outdir, DUMP[step]), "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(pend))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))
