"""Diffusion on 8x8 toy glyphs with self-conditioning ("analog bits" style), an EMA
copy of the weights, and a sample grid drawn from the EMA every so often."""
import argparse
import copy
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--timesteps", type=int, default=50)
    ap.add_argument("--sample-every", type=int, default=20)
    ap.add_argument("--self-cond-prob", type=float, default=0.5)
    ap.add_argument("--ema", type=float, default=0.98)
    return ap.parse_args([])


def glyphs(n):
    """Random horizontal and vertical bars."""
    img = -torch.ones(n, 1, 8, 8)
    for i in range(n):
        if random.random() < 0.5:
            img[i, 0, random.randrange(8)] = 1.0
        else:
            img[i, 0, :, random.randrange(8)] = 1.0
    return img


class Denoiser(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.inp = nn.Conv2d(2, width, 3, padding=1)
        self.temb = nn.Linear(8, width)
        self.mid = nn.Conv2d(width, width, 3, padding=1)
        self.out = nn.Conv2d(width, 1, 3, padding=1)
        self.register_buffer("freqs", torch.exp(-math.log(100.0) * torch.arange(4) / 4))

    def forward(self, x, t, cond):
        ang = t[:, None].float() * self.freqs
        emb = self.temb(torch.cat([ang.sin(), ang.cos()], 1))
        h = F.silu(self.inp(torch.cat([x, cond], 1)))
        h = F.silu(self.mid(h) + emb[:, :, None, None])
        return self.out(h)


class Diffusion:
    def __init__(self, timesteps, device):
        betas = torch.linspace(1e-3, 0.15, timesteps)
        self.T = timesteps
        self.device = device
        self.abar = torch.cumprod(1 - betas, 0).to(device)

    def q_sample(self, x0, t, noise):
        a = self.abar.index_select(0, t).view(-1, 1, 1, 1)
        return a.sqrt() * x0 + (1 - a).sqrt() * noise

    @torch.no_grad()
    def ddim(self, net, n, stride=5):
        x = torch.randn(n, 1, 8, 8).to(self.device)
        cond = torch.zeros(n, 1, 8, 8).to(self.device)
        ts = list(range(self.T - 1, 0, -stride))
        torch_xla.sync()
        for t, t_prev in zip(ts, ts[1:]):
            now = torch.full((n,), t, dtype=torch.long).to(self.device)
            nxt = torch.full((n,), t_prev, dtype=torch.long).to(self.device)
            x0 = net(x, now, cond).clamp(-1, 1)
            a = self.abar.index_select(0, now).view(-1, 1, 1, 1)
            b = self.abar.index_select(0, nxt).view(-1, 1, 1, 1)
            eps = (x - a.sqrt() * x0) / (1 - a).sqrt()
            x = b.sqrt() * x0 + (1 - b).sqrt() * eps
            cond = x0
            torch_xla.sync()
        return cond.cpu()


@torch.no_grad()
def ema_update(ema, net, decay):
    for e, p in zip(ema.parameters(), net.parameters()):
        e.mul_(decay).add_(p, alpha=1 - decay)


def main(args):
    random.seed(0)
    torch.manual_seed(0)
    dev = xm.xla_device()
    net = Denoiser().to(dev)
    ema = copy.deepcopy(net)
    diff = Diffusion(args.timesteps, dev)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    torch_xla.sync()
    for step in range(1, args.steps + 1):
        x0 = glyphs(args.batch).to(dev)
        t = torch.randint(0, args.timesteps, (args.batch,)).to(dev)
        noise = torch.randn(args.batch, 1, 8, 8).to(dev)
        xt = diff.q_sample(x0, t, noise)
        cond = torch.zeros_like(x0)
        if random.random() < args.self_cond_prob:
            with torch.no_grad():
                cond = net(xt, t, cond).clamp(-1, 1)
        loss = F.mse_loss(net(xt, t, cond), x0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema_update(ema, net, args.ema)
        torch_xla.sync()
        if step % args.sample_every == 0:
            grid = diff.ddim(ema, 4)
            print(f"step {step} loss {loss.item():.4f} sample mean {grid.mean():.3f}")


if __name__ == "__main__":
    main(get_args())
