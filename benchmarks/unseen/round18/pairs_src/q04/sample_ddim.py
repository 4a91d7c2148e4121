"""Deterministic DDIM sampling of spectrogram patches, with a small conditional U-shaped net."""
import math
from typing import NamedTuple

import torch
import torch.nn as nn
import torch_xla


class SamplerConfig(NamedTuple):
    train_steps: int = 100
    sample_steps: int = 5
    channels: int = 8
    guidance: float = 2.5
    classes: int = 4


def cosine_alphas(n):
    t = torch.linspace(0, 1, n + 1)
    f = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
    return (f[1:] / f[0]).clamp(1e-4, 0.9999)


class ResBlock(nn.Module):
    def __init__(self, c, emb):
        super().__init__()
        self.norm = nn.GroupNorm(4, c)
        self.conv = nn.Conv2d(c, c, 3, padding=1)
        self.shift = nn.Linear(emb, c)

    def forward(self, x, e):
        h = self.conv(torch.nn.functional.silu(self.norm(x)))
        return x + h + self.shift(e)[:, :, None, None]


class PatchNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c, e = cfg.channels, 16
        self.time = nn.Sequential(nn.Linear(2, e), nn.SiLU(), nn.Linear(e, e))
        self.label = nn.Embedding(cfg.classes + 1, e)
        self.stem = nn.Conv2d(1, c, 3, padding=1)
        self.down = nn.Conv2d(c, c, 4, stride=2, padding=1)
        self.r1, self.r2, self.r3 = ResBlock(c, e), ResBlock(c, e), ResBlock(c, e)
        self.up = nn.ConvTranspose2d(c, c, 4, stride=2, padding=1)
        self.out = nn.Conv2d(2 * c, 1, 3, padding=1)

    def forward(self, x, noise_level, label):
        emb = self.time(torch.stack([noise_level, noise_level.log()], -1)) + self.label(label)
        h0 = self.r1(self.stem(x), emb)
        h1 = self.r3(self.r2(self.down(h0), emb), emb)
        return self.out(torch.cat([h0, self.up(h1)], 1))


class Sampler:
    def __init__(self, net, cfg, device):
        self.net, self.cfg = net, cfg
        self.alphas = cosine_alphas(cfg.train_steps).to(device)
        stride = cfg.train_steps // cfg.sample_steps
        self.schedule = list(range(cfg.train_steps - 1, 0, -stride))

    def guided(self, x, level, label):
        null = torch.full_like(label, self.cfg.classes)
        both = self.net(torch.cat([x, x]), torch.cat([level, level]), torch.cat([label, null]))
        cond, uncond = both.chunk(2)
        return uncond + self.cfg.guidance * (cond - uncond)

    @torch.no_grad()
    def run(self, x, label):
        for now, nxt in zip(self.schedule[:-1], self.schedule[1:]):
            a_now, a_next = self.alphas[now], self.alphas[nxt]
            eps = self.guided(x, a_now.expand(x.shape[0]), label)
            x0 = ((x - (1 - a_now).sqrt() * eps) / a_now.sqrt()).clamp(-3, 3)
            x = a_next.sqrt() * x0 + (1 - a_next).sqrt() * eps
            torch_xla.sync()
        return x


def main():
    torch.manual_seed(9)
    cfg = SamplerConfig()
    device = torch_xla.device()
    net = PatchNet(cfg).to(device).eval()
    sampler = Sampler(net, cfg, device)
    x = torch.randn(3, 1, 16, 16).to(device)
    label = torch.tensor([0, 3, 1]).to(device)
    torch_xla.sync()
    patches = sampler.run(x, label)
    print("patch stats", patches.mean().item(), patches.std().item())


if __name__ == "__main__":
    main()
