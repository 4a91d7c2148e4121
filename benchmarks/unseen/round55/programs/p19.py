"""Small DDPM over 1-D profiles with self-conditioning, class guidance and an EMA copy for previews."""
import copy
import os
import random

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

LENGTH, CLASSES, T = 32, 4, 100


def profiles(n, g):
    y = torch.randint(0, CLASSES, (n,), generator=g)
    t = torch.linspace(0, 1, LENGTH)[None]
    phase = torch.rand(n, 1, generator=g) * 6.28
    wave = torch.sin(6.28 * (1 + y[:, None]) * t + phase)
    env = torch.exp(-((t - torch.rand(n, 1, generator=g)) ** 2) / 0.1)
    return wave * env, y


class Schedule(nn.Module):
    def __init__(self):
        super().__init__()
        s = torch.linspace(0, 1, T + 1)
        bar = torch.cos((s + 0.008) / 1.008 * torch.pi / 2) ** 2
        bar = (bar / bar[0]).clamp(min=1e-4)
        self.register_buffer("bar", bar[1:])

    def noisy(self, x, t, eps):
        b = self.bar[t][:, None]
        return b.sqrt() * x + (1 - b).sqrt() * eps

    def clean(self, xt, t, eps):
        b = self.bar[t][:, None]
        return ((xt - (1 - b).sqrt() * eps) / b.sqrt()).clamp(-2, 2)


class Denoiser(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.time = nn.Embedding(T, dim)
        self.label = nn.Embedding(CLASSES + 1, dim)
        self.inp = nn.Linear(2 * LENGTH, dim)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim)) for _ in range(2))
        self.out = nn.Linear(dim, LENGTH)

    def forward(self, x, t, y, prev=None):
        prev = torch.zeros_like(x) if prev is None else prev
        h = self.inp(torch.cat([x, prev], 1))
        c = self.time(t) + self.label(y)
        for b in self.blocks:
            h = h + b(h + c)
        return self.out(h)


class EMA:
    def __init__(self, model, decay=0.98):
        self.model, self.decay = copy.deepcopy(model).eval().requires_grad_(False), decay

    @torch.no_grad()
    def update(self, model):
        for a, b in zip(self.model.parameters(), model.parameters()):
            a.lerp_(b, 1 - self.decay)


@torch.no_grad()
def ddim(model, sched, y, stride=10, guidance=1.5):
    n, device = y.size(0), y.device
    x = torch.randn(n, LENGTH).to(device)
    prev = torch.zeros_like(x)
    null = torch.full_like(y, CLASSES)
    torch_xla.sync()
    for k in range(T - 1, 0, -stride):
        t = torch.tensor([k] * n).to(device)
        s = torch.tensor([max(k - stride, 0)] * n).to(device)
        cond, free = model(x, t, y, prev), model(x, t, null, prev)
        eps = free + guidance * (cond - free)
        prev = sched.clean(x, t, eps)
        x = sched.noisy(prev, s, eps)
        torch_xla.sync()
    return x


def main(steps=48, bs=32):
    random.seed(13)
    torch.manual_seed(13)
    g = torch.Generator().manual_seed(13)
    device = torch_xla.device()
    sched = Schedule().to(device)
    net = Denoiser().to(device)
    ema = EMA(net)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 10))
    probe = torch.arange(8).remainder(CLASSES).to(device)

    for step in range(steps):
        x, y = profiles(bs, g)
        y[torch.rand(bs, generator=g) < 0.15] = CLASSES
        t = torch.randint(0, T, (bs,), generator=g)
        x, y, t = x.to(device), y.to(device), t.to(device)
        eps = torch.randn_like(x)
        xt = sched.noisy(x, t, eps)
        prev = None
        if random.random() < 0.5:
            with torch.no_grad():
                prev = sched.clean(xt, t, net(xt, t, y))
        weight = sched.bar[t].sqrt()
        loss = (weight * F.mse_loss(net(xt, t, y, prev), eps, reduction="none").mean(1)).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        warm.step()
        if step % 2 == 1:
            ema.update(net)
        torch_xla.sync()
        if (step + 1) % 12 == 0:
            sample = ddim(ema.model, sched, probe)
            print(f"step {step + 1} loss {loss.item():.4f} lr {warm.get_last_lr()[0]:.1e} sample std {sample.std().item():.3f}")


if __name__ == "__main__":
    main()
