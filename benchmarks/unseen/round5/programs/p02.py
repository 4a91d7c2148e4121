"""Small convolutional GAN: lazy R1 penalty, EMA generator, sample sheets."""
import copy
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class GANConfig:
    z_dim: int = 16
    width: int = 8
    image: int = 8
    batch: int = 4
    steps: int = 120
    r1_gamma: float = 1.5
    r1_every: int = 4
    ema_halflife_images: float = 150.0
    sample_every: int = 20
    lr: float = 2e-3


class Generator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.side = cfg.image // 4
        self.start = nn.Linear(cfg.z_dim, w * 2 * self.side ** 2)
        self.c1 = nn.Conv2d(w * 2, w, 3, padding=1)
        self.c2 = nn.Conv2d(w, w, 3, padding=1)
        self.rgb = nn.Conv2d(w, 3, 1)
        self.w = w

    def forward(self, z):
        x = self.start(z).view(z.shape[0], self.w * 2, self.side, self.side)
        for conv in (self.c1, self.c2):
            x = x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
            x = F.leaky_relu(conv(x), 0.2)
        return torch.tanh(self.rgb(x))


class Discriminator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.net = nn.Sequential(
            nn.Conv2d(3, w, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(w, w * 2, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(w * 2 * (cfg.image // 4) ** 2, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


class BlobImages:
    """Synthetic photos: a coloured blob on a gradient."""

    def __init__(self, cfg, seed=0):
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(seed)
        ax = torch.linspace(-1, 1, cfg.image)
        self.yy, self.xx = torch.meshgrid(ax, ax, indexing="ij")

    def next(self):
        b = self.cfg.batch
        c = torch.rand(b, 2, 1, 1, generator=self.gen) - 0.5
        d = (self.xx - c[:, :1]) ** 2 + (self.yy - c[:, 1:]) ** 2
        blob = torch.exp(-6 * d)
        colour = torch.rand(b, 3, 1, 1, generator=self.gen) * 2 - 1
        return (blob * colour + 0.1 * self.xx).clamp(-1, 1)


class GANTrainer:
    def __init__(self, cfg):
        torch.manual_seed(1)
        self.cfg, self.device = cfg, torch_xla.device()
        self.g = Generator(cfg).to(self.device)
        self.d = Discriminator(cfg).to(self.device)
        self.g_ema = copy.deepcopy(self.g).requires_grad_(False)
        ratio = cfg.r1_every / (cfg.r1_every + 1)
        self.opt_g = torch.optim.Adam(self.g.parameters(), lr=cfg.lr, betas=(0.0, 0.99))
        self.opt_d = torch.optim.Adam(self.d.parameters(), lr=cfg.lr * ratio,
                                      betas=(0.0, 0.99 ** ratio))
        self.fixed_z = torch.randn(4, cfg.z_dim).to(self.device)
        self.decay = 0.5 ** (cfg.batch / cfg.ema_halflife_images)

    def noise(self):
        return torch.randn(self.cfg.batch, self.cfg.z_dim, device=self.device)

    def d_step(self, real, regularize):
        self.opt_d.zero_grad(set_to_none=True)
        with torch.no_grad():
            fake = self.g(self.noise())
        if regularize:
            real = real.requires_grad_(True)
        out_real = self.d(real)
        loss = F.softplus(self.d(fake)).mean() + F.softplus(-out_real).mean()
        if regularize:
            grad, = torch.autograd.grad(out_real.sum(), real, create_graph=True)
            penalty = grad.square().sum(dim=(1, 2, 3)).mean()
            loss = loss + penalty * (self.cfg.r1_gamma / 2 * self.cfg.r1_every)
        loss.backward()
        self.opt_d.step()
        torch_xla.sync()
        return loss.detach()

    def g_step(self):
        self.opt_g.zero_grad(set_to_none=True)
        self.d.requires_grad_(False)
        loss = F.softplus(-self.d(self.g(self.noise()))).mean()
        loss.backward()
        self.opt_g.step()
        self.d.requires_grad_(True)
        with torch.no_grad():
            for p_ema, p in zip(self.g_ema.parameters(), self.g.parameters()):
                p_ema.lerp_(p, 1 - self.decay)
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def sample_sheet(self):
        images = self.g_ema(self.fixed_z)
        torch_xla.sync()
        return images.cpu()

    def run(self):
        data = BlobImages(self.cfg)
        for step in range(self.cfg.steps):
            real = data.next().to(self.device)
            loss_d = self.d_step(real, regularize=step % self.cfg.r1_every == 0)
            loss_g = self.g_step()
            if (step + 1) % self.cfg.sample_every == 0:
                sheet = self.sample_sheet()
                assert math.isfinite(sheet.mean().item())
                print(f"step {step + 1:4d} d {loss_d.item():.3f} g {loss_g.item():.3f} "
                      f"sheet std {sheet.std():.3f}", flush=True)


if __name__ == "__main__":
    GANTrainer(GANConfig()).run()
