"""DDPM on tiny single-channel textures, with a preview grid sampled now and then."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    timesteps: int = 24
    size: int = 8
    channels: int = 16
    batch: int = 16
    steps: int = 90
    sample_every: int = 30
    n_preview: int = 8
    lr: float = 2e-3


class ResBlock(nn.Module):
    def __init__(self, c, emb):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(4, c), nn.GroupNorm(4, c)
        self.c1, self.c2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.emb = nn.Linear(emb, c)

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x))) + self.emb(e)[:, :, None, None]
        return x + self.c2(F.silu(self.n2(h)))


class Denoiser(nn.Module):
    def __init__(self, c, emb=32):
        super().__init__()
        self.emb_dim = emb
        self.time = nn.Sequential(nn.Linear(emb, emb), nn.SiLU())
        self.inp = nn.Conv2d(1, c, 3, padding=1)
        self.blocks = nn.ModuleList([ResBlock(c, emb), ResBlock(c, emb)])
        self.out = nn.Conv2d(c, 1, 3, padding=1)
        self.register_buffer("freqs", torch.exp(-math.log(1000.0) * torch.arange(emb // 2) / (emb // 2)))

    def forward(self, x, t):
        ang = t.float()[:, None] * self.freqs[None]
        e = self.time(torch.cat([ang.sin(), ang.cos()], dim=1))
        h = self.inp(x)
        for blk in self.blocks:
            h = blk(h, e)
        return self.out(h)


class Diffusion:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        betas = torch.linspace(1e-3, 0.25, cfg.timesteps)
        alphas = 1.0 - betas
        abar = torch.cumprod(alphas, 0)
        self.betas = betas.to(device)
        self.alphas = alphas.to(device)
        self.abar = abar.to(device)

    def training_loss(self, model, x0):
        t = torch.randint(0, self.cfg.timesteps, (x0.shape[0],), device=self.device)
        noise = torch.randn_like(x0)
        a = self.abar[t][:, None, None, None]
        xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
        return F.mse_loss(model(xt, t), noise)

    @torch.no_grad()
    def sample(self, model, n):
        model.eval()
        x = torch.randn(n, 1, self.cfg.size, self.cfg.size).to(self.device)
        for i in reversed(range(self.cfg.timesteps)):
            t = torch.full((n,), i, dtype=torch.long).to(self.device)
            eps = model(x, t)
            coef = self.betas[i] / (1 - self.abar[i]).sqrt()
            x = (x - coef * eps) / self.alphas[i].sqrt()
            if i > 0:
                x = x + self.betas[i].sqrt() * torch.randn_like(x)
            torch_xla.sync()
        model.train()
        return x.clamp(-1, 1)


def textures(n, size):
    yy, xx = torch.meshgrid(torch.arange(size).float(), torch.arange(size).float(), indexing="ij")
    theta = torch.rand(n, 1, 1) * math.pi
    phase = torch.rand(n, 1, 1) * 2 * math.pi
    return torch.sin(1.2 * (xx * theta.cos() + yy * theta.sin()) + phase)[:, None]


def main():
    cfg = Config()
    torch.manual_seed(5)
    device = torch_xla.device()
    model = Denoiser(cfg.channels).to(device)
    diffusion = Diffusion(cfg, device)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    torch_xla.sync()

    for step in range(1, cfg.steps + 1):
        x0 = textures(cfg.batch, cfg.size).to(device)
        opt.zero_grad()
        loss = diffusion.training_loss(model, x0)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % cfg.sample_every == 0:
            grid = diffusion.sample(model, cfg.n_preview).cpu()
            print(f"step {step} loss {loss.item():.4f} preview |x| {grid.abs().mean():.3f}", flush=True)


if __name__ == "__main__":
    main()
