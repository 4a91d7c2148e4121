"""DDPM on 2-channel motion curves, with self-conditioning and an EMA sampler."""
import copy
import math
import random

import torch
import torch.nn as nn
import torch_xla

T = 12
LENGTH, CH = 16, 2


def betas():
    s = torch.linspace(0, 1, T + 1)
    f = torch.cos((s + 0.008) / 1.008 * math.pi / 2) ** 2
    return (1 - f[1:] / f[:-1]).clamp(max=0.99)


class TimeEmbed(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("freq", torch.exp(torch.linspace(0, -4, dim // 2)))
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        ang = t.float()[:, None] * self.freq[None]
        return self.mlp(torch.cat([ang.sin(), ang.cos()], dim=1))


class Denoiser(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.time = TimeEmbed(dim)
        self.inp = nn.Conv1d(2 * CH, dim, 3, padding=1)
        self.mid = nn.ModuleList(nn.Conv1d(dim, dim, 3, padding=1) for _ in range(2))
        self.norm = nn.ModuleList(nn.GroupNorm(4, dim) for _ in range(2))
        self.out = nn.Conv1d(dim, CH, 3, padding=1)

    def forward(self, x, t, cond):
        emb = self.time(t)[:, :, None]
        h = self.inp(torch.cat([x, cond], dim=1))
        for conv, norm in zip(self.mid, self.norm):
            h = h + conv(nn.functional.silu(norm(h) + emb))
        return self.out(h)


class Diffusion:
    def __init__(self, device):
        b = betas()
        self.device = device
        self.beta = b.to(device)
        self.abar = torch.cumprod(1 - b, 0).to(device)

    def loss(self, net, x0, self_condition):
        n = x0.shape[0]
        t = torch.randint(0, T, (n,), device=self.device)
        noise = torch.randn_like(x0)
        a = self.abar[t].view(n, 1, 1)
        xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
        cond = torch.zeros_like(x0)
        if self_condition:
            with torch.no_grad():
                cond = net(xt, t, cond)
        return nn.functional.mse_loss(net(xt, t, cond), x0)

    @torch.no_grad()
    def sample(self, net, n):
        x = torch.randn(n, CH, LENGTH).to(self.device)
        cond = torch.zeros(n, CH, LENGTH).to(self.device)
        for step in reversed(range(T)):
            t = torch.tensor([step] * n).to(self.device)
            a = self.abar[t].view(n, 1, 1)
            cond = net(x, t, cond)
            if step == 0:
                x = cond
            else:
                prev = self.abar[t - 1].view(n, 1, 1)
                eps = (x - a.sqrt() * cond) / (1 - a).sqrt()
                sigma = 0.5 * self.beta[t].view(n, 1, 1).sqrt()
                x = prev.sqrt() * cond + (1 - prev).sqrt() * eps + sigma * torch.randn_like(x)
            torch_xla.sync()
        return x


@torch.no_grad()
def update_ema(ema, net, decay=0.95):
    for e, p in zip(ema.parameters(), net.parameters()):
        e.mul_(decay).add_(p, alpha=1 - decay)


def curves(n):
    ph = torch.rand(n, 1) * 2 * math.pi
    w = torch.rand(n, 1) * 0.5 + 0.3
    s = torch.arange(LENGTH)[None] * w + ph
    return torch.stack([s.sin(), s.cos()], dim=1)


def main(steps=30, batch=32, sample_every=10):
    random.seed(2)
    torch.manual_seed(2)
    device = torch_xla.device()
    net = Denoiser().to(device)
    ema = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    diff = Diffusion(device)
    torch_xla.sync()
    for step in range(1, steps + 1):
        loss = diff.loss(net, curves(batch).to(device), self_condition=random.random() < 0.5)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        update_ema(ema, net)
        torch_xla.sync()
        if step % sample_every == 0:
            out = diff.sample(ema, 8).cpu()
            radius = out.pow(2).sum(1).sqrt().mean()
            print(f"step {step}: loss {loss.item():.4f}, sample radius {radius:.3f}")


if __name__ == "__main__":
    main()
