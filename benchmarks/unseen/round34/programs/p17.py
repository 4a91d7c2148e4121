"""DDPM on short two-channel gait cycles; trains with random t, previews with a strided DDIM sampler."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LENGTH = 32
CHANNELS = 2
TIMESTEPS = 100
STEPS = 45
BATCH = 16


def cosine_alphas_cumprod(n, s=0.008):
    x = torch.linspace(0, n, n + 1, dtype=torch.float64)
    f = torch.cos((x / n + s) / (1 + s) * math.pi / 2) ** 2
    betas = (1 - f[1:] / f[:-1]).clamp(max=0.999)
    return torch.cumprod(1 - betas, 0).float()


def gait_batch(g):
    t = torch.linspace(0, 2 * math.pi, LENGTH)
    phase = 2 * math.pi * torch.rand(BATCH, 1, generator=g)
    amp = 0.6 + 0.4 * torch.rand(BATCH, 1, generator=g)
    hip = amp * torch.sin(t + phase)
    knee = amp * torch.sin(2 * t + 2 * phase + 0.4)
    return torch.stack([hip, knee], dim=1)


class Block(nn.Module):
    def __init__(self, ch, emb):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, ch), nn.GroupNorm(4, ch)
        self.c1, self.c2 = nn.Conv1d(ch, ch, 3, padding=1), nn.Conv1d(ch, ch, 3, padding=1)
        self.film = nn.Linear(emb, 2 * ch)

    def forward(self, x, e):
        h = self.c1(F.silu(self.norm1(x)))
        scale, shift = self.film(e).unsqueeze(-1).chunk(2, dim=1)
        h = self.norm2(h) * (1 + scale) + shift
        return x + self.c2(F.silu(h))


class Denoiser(nn.Module):
    def __init__(self, ch=16, emb=32):
        super().__init__()
        self.emb = emb
        self.time = nn.Sequential(nn.Linear(emb, emb), nn.SiLU())
        self.inp = nn.Conv1d(CHANNELS, ch, 3, padding=1)
        self.blocks = nn.ModuleList(Block(ch, emb) for _ in range(2))
        self.out = nn.Conv1d(ch, CHANNELS, 3, padding=1)

    def forward(self, x, t):
        freqs = torch.exp(-math.log(1e4) * torch.arange(self.emb // 2, device=x.device) / (self.emb // 2))
        ang = t.float()[:, None] * freqs
        e = self.time(torch.cat([ang.sin(), ang.cos()], dim=-1))
        h = self.inp(x)
        for b in self.blocks:
            h = b(h, e)
        return self.out(h)


class Diffusion(nn.Module):
    def __init__(self, net, timesteps=TIMESTEPS):
        super().__init__()
        self.net, self.timesteps = net, timesteps
        self.register_buffer("alphas_cumprod", cosine_alphas_cumprod(timesteps))

    def loss(self, x0):
        t = torch.randint(0, self.timesteps, (x0.size(0),), device=x0.device)
        a = self.alphas_cumprod.gather(0, t)[:, None, None]
        noise = torch.randn_like(x0)
        xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
        snr = a / (1 - a)
        w = (snr.clamp(max=5.0) / snr).squeeze(-1)
        return (w * (self.net(xt, t) - noise).pow(2).mean(-1)).mean()

    @torch.no_grad()
    def ddim(self, n, num_steps, device):
        stride = torch.linspace(self.timesteps - 1, 0, num_steps).round().long().tolist()
        x = torch.randn(n, CHANNELS, LENGTH, device=device)
        for i, t in enumerate(stride):
            eps = self.net(x, torch.full((n,), t, dtype=torch.long, device=device))
            a_t = self.alphas_cumprod[t]
            a_prev = self.alphas_cumprod[stride[i + 1]] if i + 1 < num_steps else torch.ones_like(a_t)
            x0 = ((x - (1 - a_t).sqrt() * eps) / a_t.sqrt()).clamp(-1.5, 1.5)
            x = a_prev.sqrt() * x0 + (1 - a_prev).sqrt() * eps
            torch_xla.sync()
        return x


def main():
    torch.manual_seed(4)
    device = torch_xla.device()
    gen = torch.Generator().manual_seed(4)
    model = Diffusion(Denoiser()).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.99))
    previews = {15: 5, 30: 8, 45: 12}

    avg = None
    for step in range(1, STEPS + 1):
        x0 = gait_batch(gen).to(device)
        loss = model.loss(x0)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        torch_xla.sync()
        if step in previews:
            value = loss.item()
            avg = value if avg is None else 0.5 * (avg + value)
            model.eval()
            sample = model.ddim(BATCH, previews[step], device).cpu()
            model.train()
            print(f"step {step}  loss {avg:.4f}  hip std {sample[:, 0].std():.3f}  knee std {sample[:, 1].std():.3f}")


if __name__ == "__main__":
    main()
