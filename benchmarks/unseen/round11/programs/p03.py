"""DDPM on 2-d toy images with an epsilon network and DDIM previews during training."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    timesteps: int = 40
    sample_steps: int = 10
    dim: int = 16
    size: int = 8
    batch_size: int = 8
    iterations: int = 18
    preview_every: int = 8
    lr: float = 1e-3


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
    args = t.float()[:, None] * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, ch, emb_dim):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, ch)
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.emb = nn.Linear(emb_dim, ch)
        self.norm2 = nn.GroupNorm(4, ch)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.emb(F.silu(emb))[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(h)))


class EpsNet(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.time = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, 2 * dim))
        self.inp = nn.Conv2d(1, dim, 3, padding=1)
        self.blocks = nn.ModuleList([ResBlock(dim, 2 * dim) for _ in range(2)])
        self.out = nn.Conv2d(dim, 1, 3, padding=1)

    def forward(self, x, t):
        emb = self.time(timestep_embedding(t, self.dim))
        h = self.inp(x)
        for block in self.blocks:
            h = block(h, emb)
        return self.out(h)


class Diffusion(nn.Module):
    def __init__(self, net, timesteps):
        super().__init__()
        self.net = net
        self.T = timesteps
        betas = torch.linspace(1e-3, 0.12, timesteps)
        self.register_buffer("alpha_bar", torch.cumprod(1 - betas, dim=0))

    def loss(self, x0, t, noise):
        a = self.alpha_bar[t][:, None, None, None]
        xt = a.sqrt() * x0 + (1 - a).sqrt() * noise
        return F.mse_loss(self.net(xt, t), noise)

    @torch.no_grad()
    def ddim_sample(self, x, n_steps):
        self.net.eval()
        stride = self.T // n_steps
        for t in reversed(range(stride, self.T, stride)):
            t_batch = torch.full((x.size(0),), t, device=x.device, dtype=torch.long)
            eps = self.net(x, t_batch)
            a_t = self.alpha_bar[t]
            a_prev = self.alpha_bar[t - stride]
            x0 = ((x - (1 - a_t).sqrt() * eps) / a_t.sqrt()).clamp(-1, 1)
            x = a_prev.sqrt() * x0 + (1 - a_prev).sqrt() * eps
            torch_xla.sync()
        self.net.train()
        return x


def toy_images(n, size):
    img = -torch.ones(n, 1, size, size)
    for i in range(n):
        r, c = torch.randint(0, size - 3, (2,)).tolist()
        img[i, :, r:r + 3, c:c + 3] = 1.0
    return img


def main(cfg=Config()):
    torch.manual_seed(1)
    device = torch_xla.device()
    diffusion = Diffusion(EpsNet(cfg.dim), cfg.timesteps).to(device)
    optimizer = torch.optim.Adam(diffusion.parameters(), lr=cfg.lr)
    for it in range(1, cfg.iterations + 1):
        x0 = toy_images(cfg.batch_size, cfg.size).to(device)
        t = torch.randint(0, cfg.timesteps, (cfg.batch_size,)).to(device)
        noise = torch.randn(cfg.batch_size, 1, cfg.size, cfg.size).to(device)
        optimizer.zero_grad()
        loss = diffusion.loss(x0, t, noise)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if it % cfg.preview_every == 0:
            start = torch.randn(4, 1, cfg.size, cfg.size).to(device)
            samples = diffusion.ddim_sample(start, cfg.sample_steps).cpu()
            print(f"iter {it} loss {loss.item():.4f} preview mean {samples.mean():.3f} std {samples.std():.3f}")


if __name__ == "__main__":
    main()
