"""Fast calorimeter-shower simulation: a small conditional GAN.

Non-saturating loss, lazy R1 penalty on the discriminator, and an exponential
moving average of the generator that is used for the physics check.
"""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CONFIG = {
    "layers": 12,          # longitudinal calorimeter layers
    "noise": 8,
    "width": 48,
    "batch": 32,
    "iterations": 56,
    "r1_gamma": 2.0,
    "r1_every": 4,
    "ema_decay": 0.98,
    "check_every": 10,
    "g_lr": 1e-3,
    "d_lr": 1e-3,
    "seed": 12,
}


def mlp(sizes, slope=0.2):
    mods = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        mods.append(nn.Linear(a, b))
        if i < len(sizes) - 2:
            mods.append(nn.LeakyReLU(slope))
    return nn.Sequential(*mods)


class Generator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.body = mlp([cfg["noise"] + 1, cfg["width"], cfg["width"], cfg["layers"]])

    def forward(self, z, energy):
        profile = torch.softmax(self.body(torch.cat([z, energy], dim=1)), dim=1)
        return profile * energy


class Discriminator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.body = mlp([cfg["layers"] + 1, cfg["width"], cfg["width"], 1])

    def forward(self, shower, energy):
        return self.body(torch.cat([shower, energy], dim=1)).squeeze(1)


class ShowerSource:
    """Longitudinal profiles t^(a-1) exp(-b t) with fluctuating shape parameters."""

    def __init__(self, layers, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.depth = torch.arange(1, layers + 1, dtype=torch.float32)

    def sample(self, n):
        energy = 0.5 + 1.5 * torch.rand(n, 1, generator=self.gen)
        a = 3.0 + 0.5 * torch.randn(n, 1, generator=self.gen) + torch.log(energy)
        b = 0.6 + 0.05 * torch.randn(n, 1, generator=self.gen)
        shape = (a - 1) * torch.log(self.depth) - b * self.depth
        return torch.softmax(shape, dim=1) * energy, energy


class ShowerGAN:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.gen = Generator(cfg).to(device)
        self.dis = Discriminator(cfg).to(device)
        self.ema = copy.deepcopy(self.gen).requires_grad_(False)
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=cfg["g_lr"], betas=(0.0, 0.99))
        self.opt_d = torch.optim.Adam(self.dis.parameters(), lr=cfg["d_lr"], betas=(0.0, 0.99))

    def noise(self, n):
        return torch.randn(n, self.cfg["noise"], device=self.device)

    def update_discriminator(self, real, energy, with_penalty):
        self.opt_d.zero_grad()
        with torch.no_grad():
            fake = self.gen(self.noise(len(real)), energy)
        real = real.requires_grad_(with_penalty)
        real_logit = self.dis(real, energy)
        loss = F.softplus(-real_logit).mean() + F.softplus(self.dis(fake, energy)).mean()
        if with_penalty:
            (grad,) = torch.autograd.grad(real_logit.sum(), real, create_graph=True)
            penalty = grad.square().sum(dim=1).mean()
            loss = loss + 0.5 * self.cfg["r1_gamma"] * self.cfg["r1_every"] * penalty
        loss.backward()
        xm.optimizer_step(self.opt_d, barrier=True)
        return loss.detach()

    def update_generator(self, energy):
        self.opt_g.zero_grad()
        fake = self.gen(self.noise(len(energy)), energy)
        loss = F.softplus(-self.dis(fake, energy)).mean()
        loss.backward()
        self.opt_g.step()
        with torch.no_grad():
            for slow, fast in zip(self.ema.parameters(), self.gen.parameters()):
                slow.lerp_(fast, 1.0 - self.cfg["ema_decay"])
        xm.mark_step()
        return loss.detach()

    @torch.no_grad()
    def physics_check(self, real, energy):
        """Difference of the mean shower depth and of its spread, generated vs. real."""
        depth = torch.arange(1, self.cfg["layers"] + 1, device=self.device).float()
        fake = self.ema(self.noise(len(real)), energy)
        centre_f = (fake * depth).sum(1) / fake.sum(1)
        centre_r = (real * depth).sum(1) / real.sum(1)
        report = torch.stack([centre_f.mean() - centre_r.mean(), centre_f.std() - centre_r.std()])
        xm.mark_step()
        return report.cpu().tolist()


def main(cfg):
    torch.manual_seed(cfg["seed"])
    device = xm.xla_device()
    gan = ShowerGAN(cfg, device)
    source = ShowerSource(cfg["layers"], cfg["seed"] + 1)
    holdout = [t.to(device) for t in source.sample(96)]

    for it in range(cfg["iterations"]):
        real, energy = (t.to(device) for t in source.sample(cfg["batch"]))
        d_loss = gan.update_discriminator(real, energy, with_penalty=it % cfg["r1_every"] == 0)
        g_loss = gan.update_generator(energy)
        if (it + 1) % cfg["check_every"] == 0:
            mean, spread = gan.physics_check(*holdout)
            assert math.isfinite(mean)
            print(f"iter {it + 1}: D {d_loss.item():.3f} G {g_loss.item():.3f} "
                  f"depth offset {mean:+.3f} spread {spread:+.3f}")


if __name__ == "__main__":
    main(CONFIG)
