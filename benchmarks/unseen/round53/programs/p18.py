"""Progressively grown denoising diffusion model on synthetic blob images."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Stage:
    size: int
    steps: int
    fade: int


STAGES = [Stage(4, 8, 0), Stage(8, 10, 4), Stage(16, 30, 5)]
WIDTH = 8
BATCH = 8
SEED = 18
PREVIEW_EVERY = 8


def blobs(n, size, rng):
    """Images of one to three Gaussian blobs in [-1, 1]."""
    grid = (np.arange(size) + 0.5) / size
    yy, xx = np.meshgrid(grid, grid, indexing="ij")
    out = np.zeros((n, 1, size, size), np.float32)
    for i in range(n):
        for _ in range(rng.integers(1, 4)):
            cy, cx, s = rng.uniform(0.2, 0.8), rng.uniform(0.2, 0.8), rng.uniform(0.05, 0.2)
            out[i, 0] += np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / (2 * s * s))
    return torch.from_numpy(np.clip(out, 0, 1) * 2 - 1)


class ResBlock(nn.Module):
    def __init__(self, ch, emb):
        super().__init__()
        self.norm = nn.GroupNorm(4, ch)
        self.conv = nn.Conv2d(ch, ch, 3, padding=1)
        self.film = nn.Linear(emb, 2 * ch)

    def forward(self, x, emb):
        scale, shift = self.film(emb)[:, :, None, None].chunk(2, 1)
        return x + self.conv(F.silu(self.norm(x) * (1 + scale) + shift))


class GrowingDenoiser(nn.Module):
    """One down/up level is wrapped around the core for every stage after the first."""

    def __init__(self, n_stages, ch=WIDTH, emb=8):
        super().__init__()
        self.register_buffer("freqs", torch.exp(torch.linspace(0, 4, emb // 2)))
        self.embed = nn.Sequential(nn.Linear(emb, emb), nn.SiLU())
        self.stem = nn.ModuleList(nn.Conv2d(1, ch, 3, padding=1) for _ in range(n_stages))
        self.head = nn.ModuleList(nn.Conv2d(ch, 1, 3, padding=1) for _ in range(n_stages))
        self.down = nn.ModuleList(ResBlock(ch, emb) for _ in range(n_stages))
        self.up = nn.ModuleList(ResBlock(ch, emb) for _ in range(n_stages))

    def forward(self, x, t, level, alpha):
        ang = t[:, None] * self.freqs
        emb = self.embed(torch.cat([ang.sin(), ang.cos()], -1))
        h = self.stem[level](x)
        skips = []
        for i in range(level, 0, -1):
            h = self.down[i](h, emb)
            skips.append(h)
            h = F.avg_pool2d(h, 2)
            if i == level and alpha < 1.0:
                h = alpha * h + (1.0 - alpha) * self.stem[i - 1](F.avg_pool2d(x, 2))
        h = self.up[0](self.down[0](h, emb), emb)
        low = h
        for i in range(1, level + 1):
            low = h
            h = h.repeat_interleave(2, 2).repeat_interleave(2, 3)
            h = self.up[i](h + skips.pop(), emb)
        out = self.head[level](h)
        if level > 0 and alpha < 1.0:
            old = self.head[level - 1](low).repeat_interleave(2, 2).repeat_interleave(2, 3)
            out = alpha * out + (1.0 - alpha) * old
        return out


def cosine_alpha_bar(t):
    return torch.cos(t * 0.5 * torch.pi).pow(2).clamp(1e-4, 1.0)


def denoising_loss(model, x0, level, alpha):
    t = torch.rand(x0.size(0), device=x0.device)
    abar = cosine_alpha_bar(t)[:, None, None, None]
    noise = torch.randn_like(x0)
    xt = abar.sqrt() * x0 + (1 - abar).sqrt() * noise
    return F.mse_loss(model(xt, t, level, alpha), noise)


@torch.no_grad()
def preview(model, size, level, alpha, device, n_steps=3):
    x = torch.randn(4, 1, size, size, device=device)
    times = torch.linspace(0.98, 0.02, n_steps + 1)
    for now, nxt in zip(times[:-1], times[1:]):
        t = now.expand(4).to(device)
        a, b = cosine_alpha_bar(now).to(device), cosine_alpha_bar(nxt).to(device)
        eps = model(x, t, level, alpha)
        x0 = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-1, 1)
        x = b.sqrt() * x0 + (1 - b).sqrt() * eps
        torch_xla.sync()
    return x


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()
    model = GrowingDenoiser(len(STAGES)).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    torch_xla.sync()

    step = 0
    for level, stage in enumerate(STAGES):
        images = blobs(96, stage.size, rng)
        for k in range(1, stage.steps + 1):
            step += 1
            alpha = k / (stage.fade + 1) if k <= stage.fade else 1.0
            x0 = images[torch.randint(0, len(images), (BATCH,))].to(device)
            loss = denoising_loss(model, x0, level, alpha)
            opt.zero_grad(set_to_none=False)
            loss.backward()
            opt.step()
            torch_xla.sync()
            if step % PREVIEW_EVERY == 0:
                img = preview(model, stage.size, level, alpha, device)
                print(
                    f"step {step:3d} size {stage.size:2d} alpha {alpha:.2f} "
                    f"loss {loss.item():.4f} sample std {img.std().item():.3f}"
                )


if __name__ == "__main__":
    main()
