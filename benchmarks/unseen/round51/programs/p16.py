"""GAN for single heart beats (ECG): non-saturating loss, lazy R1 penalty, EMA generator."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BEAT = 48
LATENT = 8


class Generator(nn.Module):
    def __init__(self, latent=LATENT, hidden=48, out=BEAT):
        super().__init__()
        self.mapping = nn.Sequential(nn.Linear(latent, hidden), nn.LeakyReLU(0.2),
                                     nn.Linear(hidden, hidden), nn.LeakyReLU(0.2))
        self.affine = nn.Linear(hidden, 2 * hidden)
        self.const = nn.Parameter(torch.randn(1, hidden))
        self.synthesis = nn.Sequential(nn.Linear(hidden, hidden), nn.LeakyReLU(0.2),
                                       nn.Linear(hidden, out))

    def forward(self, z):
        w = self.mapping(F.normalize(z, dim=1) * math.sqrt(z.size(1)))
        scale, shift = self.affine(w).chunk(2, dim=1)
        return self.synthesis(self.const * (1 + scale) + shift)


class Discriminator(nn.Module):
    def __init__(self, beat=BEAT, hidden=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(beat + 1, hidden), nn.LeakyReLU(0.2),
                                 nn.Linear(hidden, hidden), nn.LeakyReLU(0.2),
                                 nn.Linear(hidden, 1))

    def forward(self, x):
        spread = x.var(dim=0, unbiased=False).mean().sqrt().expand(x.size(0), 1)
        return self.net(torch.cat([x, spread], dim=1)).squeeze(1)


class BeatSource:
    """P, QRS and T waves as sums of gaussians with jittered amplitudes and positions."""

    def __init__(self, batch, seed=0):
        self.batch = batch
        self.g = torch.Generator().manual_seed(seed)
        self.t = torch.linspace(0, 1, BEAT)

    def __call__(self):
        x = torch.zeros(self.batch, BEAT)
        for centre, width, amp in ((0.2, 0.04, 0.15), (0.38, 0.012, -0.12), (0.42, 0.02, 1.0),
                                   (0.46, 0.014, -0.25), (0.7, 0.06, 0.3)):
            c = centre + 0.02 * torch.randn(self.batch, 1, generator=self.g)
            a = amp * (1 + 0.1 * torch.randn(self.batch, 1, generator=self.g))
            x += a * torch.exp(-0.5 * ((self.t - c) / width) ** 2)
        return x


class GANTrainer:
    def __init__(self, device, batch, lr=2e-3, r1_gamma=1.0, r1_every=8, ema=0.97):
        self.device, self.batch = device, batch
        self.r1_gamma, self.r1_every, self.ema = r1_gamma, r1_every, ema
        self.G = Generator().to(device)
        self.D = Discriminator().to(device)
        self.G_ema = copy.deepcopy(self.G).requires_grad_(False)
        ratio = r1_every / (r1_every + 1)
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=lr, betas=(0.0, 0.99))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=lr * ratio, betas=(0.0, 0.99 ** ratio))

    def latents(self):
        return torch.randn(self.batch, LATENT, device=self.device)

    def d_step(self, real):
        with torch.no_grad():
            fake = self.G(self.latents())
        loss = F.softplus(self.D(fake)).mean() + F.softplus(-self.D(real)).mean()
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        torch_xla.sync()
        return loss.detach()

    def r1_step(self, real):
        real = real.detach().requires_grad_(True)
        grad, = torch.autograd.grad(self.D(real).sum(), real, create_graph=True)
        penalty = grad.pow(2).sum(1).mean()
        self.opt_d.zero_grad()
        (0.5 * self.r1_gamma * self.r1_every * penalty).backward()
        self.opt_d.step()
        torch_xla.sync()
        return penalty.detach()

    def g_step(self):
        loss = F.softplus(-self.D(self.G(self.latents()))).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        with torch.no_grad():
            for avg, p in zip(self.G_ema.parameters(), self.G.parameters()):
                avg.lerp_(p, 1 - self.ema)
        torch_xla.sync()
        return loss.detach()


def main(iters=60, batch=32):
    torch.manual_seed(17)
    xm.set_rng_state(17)
    device = torch_xla.device()
    source = BeatSource(batch, seed=17)
    trainer = GANTrainer(device, batch)
    preview_z = torch.randn(8, LATENT).to(device)
    r1 = None

    for it in range(iters):
        real = source().to(device)
        d_loss = trainer.d_step(real)
        if it % trainer.r1_every == 0:
            r1 = trainer.r1_step(real)
        g_loss = trainer.g_step()

        if it % 15 == 14:
            with torch.no_grad():
                beats = trainer.G_ema(preview_z)
            peak = beats.cpu().abs().amax(1).mean()
            print(f"{it + 1:3d} D {d_loss.item():.3f} G {g_loss.item():.3f} "
                  f"R1 {r1.item():.4f} preview peak {peak:.3f}")


if __name__ == "__main__":
    main()
