"""Pixel diffusion on 8x8 glyphs: v-prediction, self-conditioning, EMA weights."""
import copy
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

STEPS = 10
BATCH = 8
EMA_EVERY = 4
EMA_DECAY = 0.995


def alpha_sigma(t):
    return torch.cos(t * math.pi / 2), torch.sin(t * math.pi / 2)


class TimeEmbed(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("freqs", torch.exp(torch.linspace(0, math.log(200.0), dim // 2)))
        self.proj = nn.Linear(dim, dim)

    def forward(self, t):
        a = t[:, None] * self.freqs[None]
        return F.silu(self.proj(torch.cat([a.sin(), a.cos()], dim=-1)))


class Block(nn.Module):
    def __init__(self, ch, tdim):
        super().__init__()
        self.norm = nn.GroupNorm(2, ch, affine=False)
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.film = nn.Linear(tdim, 2 * ch)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x, temb):
        scale, shift = self.film(temb)[:, :, None, None].chunk(2, dim=1)
        h = self.norm(x) * (1 + scale) + shift
        return x + self.conv2(F.silu(self.conv1(F.silu(h))))


class Denoiser(nn.Module):
    def __init__(self, ch=8, tdim=12):
        super().__init__()
        self.temb = TimeEmbed(tdim)
        self.stem = nn.Conv2d(2, ch, 3, padding=1)
        self.blocks = nn.ModuleList([Block(ch, tdim) for _ in range(2)])
        self.out = nn.Conv2d(ch, 1, 1)

    def forward(self, x, t, x_self=None):
        if x_self is None:
            x_self = torch.zeros_like(x)
        h = self.stem(torch.cat([x, x_self], dim=1))
        e = self.temb(t)
        for b in self.blocks:
            h = b(h, e)
        return self.out(h)


class Ema:
    def __init__(self, model, decay):
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.model.parameters(), model.parameters()):
            e.lerp_(p, 1 - self.decay)


def diffusion_loss(net, x0, t, noise):
    a, s = (v[:, None, None, None] for v in alpha_sigma(t))
    xt = a * x0 + s * noise
    target = a * noise - s * x0
    x_self = None
    if random.random() < 0.5:
        with torch.no_grad():
            x_self = (a * xt - s * net(xt, t)).clamp(-1, 1)
    v = net(xt, t, x_self)
    return F.mse_loss(v, target)


def glyphs(n):
    g = torch.Generator().manual_seed(11)
    for _ in range(n):
        yield (torch.rand(BATCH, 1, 8, 8, generator=g) > 0.6).float() * 2 - 1


def main():
    random.seed(4)
    torch.manual_seed(4)
    device = torch_xla.device()
    net = Denoiser().to(device)
    ema = Ema(net, EMA_DECAY)
    opt = torch.optim.SGD(net.parameters(), lr=5e-2, momentum=0.9, nesterov=True)
    for step, x0 in enumerate(glyphs(STEPS), start=1):
        x0 = x0.to(device)
        t = torch.rand(BATCH).to(device)
        noise = torch.randn(BATCH, 1, 8, 8).to(device)
        opt.zero_grad()
        loss = diffusion_loss(net, x0, t, noise)
        loss.backward()
        opt.step()
        if step % EMA_EVERY == 0:
            ema.update(net)
        torch_xla.sync()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
