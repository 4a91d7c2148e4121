# Progressive growing GAN, toy scale (blobs instead of faces).
from dataclasses import dataclass, field
from typing import List

import torch
from torch import nn
from torch.nn import functional as F
import torch_xla


@dataclass
class Config:
    latent: int = 16
    width: int = 16
    resolutions: List[int] = field(default_factory=lambda: [4, 8])
    steps_per_resolution: int = 9
    fade_steps: int = 6
    batch: int = 16
    lr: float = 2e-3


def pixel_norm(x):
    return x * torch.rsqrt(x.pow(2).mean(dim=1, keepdim=True) + 1e-8)


def upsample2x(x):
    n, c, h, w = x.shape
    return x[:, :, :, None, :, None].expand(n, c, h, 2, w, 2).reshape(n, c, 2 * h, 2 * w)


class Generator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.stem = nn.Linear(cfg.latent, cfg.width * 16)
        self.blocks = nn.ModuleList([nn.Conv2d(cfg.width, cfg.width, 3, padding=1)])
        self.to_rgb = nn.ModuleList([nn.Conv2d(cfg.width, 3, 1)])

    def grow(self, device):
        self.blocks.append(nn.Conv2d(self.cfg.width, self.cfg.width, 3, padding=1).to(device))
        self.to_rgb.append(nn.Conv2d(self.cfg.width, 3, 1).to(device))

    def forward(self, z, alpha):
        h = self.stem(z).view(-1, self.cfg.width, 4, 4)
        h = pixel_norm(F.leaky_relu(self.blocks[0](h), 0.2))
        rgb = self.to_rgb[0](h)
        for i in range(1, len(self.blocks)):
            up = upsample2x(h)
            h = pixel_norm(F.leaky_relu(self.blocks[i](up), 0.2))
            old = self.to_rgb[i - 1](up)
            rgb = torch.lerp(old, self.to_rgb[i](h), alpha)
        return torch.tanh(rgb)


class Critic(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.from_rgb = nn.ModuleList([nn.Conv2d(3, cfg.width, 1)])
        self.blocks = nn.ModuleList([nn.Conv2d(cfg.width, cfg.width, 3, padding=1)])
        self.head = nn.Linear(cfg.width * 16, 1)

    def grow(self, device):
        self.from_rgb.append(nn.Conv2d(3, self.cfg.width, 1).to(device))
        self.blocks.append(nn.Conv2d(self.cfg.width, self.cfg.width, 3, padding=1).to(device))

    def forward(self, img, alpha):
        top = len(self.blocks) - 1
        h = F.leaky_relu(self.from_rgb[top](img), 0.2)
        for i in range(top, 0, -1):
            h = F.avg_pool2d(F.leaky_relu(self.blocks[i](h), 0.2), 2)
            if i == top:
                skip = F.leaky_relu(self.from_rgb[i - 1](F.avg_pool2d(img, 2)), 0.2)
                h = torch.lerp(skip, h, alpha)
        h = F.leaky_relu(self.blocks[0](h), 0.2)
        return self.head(h.flatten(1)).squeeze(1)


def real_batch(n, res):
    grid = torch.linspace(-1, 1, res)
    cx, cy = torch.rand(2, n, 1, 1) - 0.5
    blob = torch.exp(-((grid.view(1, 1, -1) - cx) ** 2 + (grid.view(1, -1, 1) - cy) ** 2) * 4)
    tint = torch.rand(n, 3, 1, 1)
    return blob.unsqueeze(1) * tint * 2 - 1


def train(cfg):
    device = torch_xla.device()
    G, D = Generator(cfg).to(device), Critic(cfg).to(device)
    for stage, res in enumerate(cfg.resolutions):
        if stage:
            G.grow(device)
            D.grow(device)
        g_opt = torch.optim.Adam(G.parameters(), lr=cfg.lr, betas=(0.0, 0.99))
        d_opt = torch.optim.Adam(D.parameters(), lr=cfg.lr, betas=(0.0, 0.99))
        torch_xla.sync()
        for it in range(cfg.steps_per_resolution):
            fade = min(1.0, (it + 1) / cfg.fade_steps)
            alpha = torch.full((cfg.batch, 1, 1, 1), fade).to(device)
            real = real_batch(cfg.batch, res).to(device)
            z = torch.randn(cfg.batch, cfg.latent).to(device)

            with torch.no_grad():
                fake = G(z, alpha)
            d_loss = F.softplus(D(fake, alpha)).mean() + F.softplus(-D(real, alpha)).mean()
            d_opt.zero_grad(set_to_none=True)
            d_loss.backward()
            d_opt.step()
            torch_xla.sync()

            g_loss = F.softplus(-D(G(z, alpha), alpha)).mean()
            g_opt.zero_grad(set_to_none=True)
            g_loss.backward()
            g_opt.step()
            D.zero_grad(set_to_none=True)
            torch_xla.sync()
            if it % 4 == 3:
                print(f"{res}x{res} it {it + 1}: D {d_loss.item():.3f} G {g_loss.item():.3f} fade {fade:.2f}")


if __name__ == "__main__":
    torch.manual_seed(11)
    train(Config())
